// What train_llama_cuda is: train_llama, whose ranks share a GPU.
#include "../settings.hpp"

train_llama::started_as train_llama::this_process() {
  return {"train_llama_cuda", "threads that share GPU 0", "cuda", 0};
}
