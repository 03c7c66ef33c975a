// Settings by which tokens are chosen: each alone at its ends, and several together.
#pragma once

#include <vector>

#include <weft/train/sampling.hpp>

namespace weft_test {

inline const std::vector<weft::sampling> samplings{
    {.temperature = 0},
    {.temperature = 0, .repetition_penalty = 1.5},
    {.temperature = 1},
    {.temperature = 1e-308},
    {.temperature = 1e308},
    {.temperature = 0.8, .top_k = 1},
    {.temperature = 0.8, .top_k = 40},
    {.temperature = 0.8, .top_k = 1 << 30},
    {.temperature = 1, .top_p = 1e-12},
    {.temperature = 1, .top_p = 0.9},
    {.temperature = 1.3, .top_p = 1 - 1e-15},
    {.temperature = 2, .min_p = 0.05},
    {.temperature = 2, .min_p = 1},
    {.temperature = 0.7, .top_k = 50, .top_p = 0.95, .min_p = 0.02, .repetition_penalty = 1.1},
    {.temperature = 1.5, .top_k = 7, .top_p = 0.5, .repetition_penalty = 0.5},
    {.temperature = 1e3, .top_p = 0.5, .min_p = 0.5, .repetition_penalty = 3, .penalty_window = 3},
};

}  // namespace weft_test
