#include <weft/weft.cuh>

#include "../run_with.hpp"

std::vector<train_llama::choice> train_llama::fp32_strategies() {
  return strategies_of<weft::fp32, weft::cuda_backend>();
}
