#include <weft/weft.cuh>

#include "../run_with.hpp"

std::vector<train_llama::choice> train_llama::bf16_strategies() {
  return strategies_of<weft::bf16_mixed, weft::cuda_backend>();
}
