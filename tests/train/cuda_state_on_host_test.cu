// Training of which something lies in the host's memory, on a GPU: the optimizer's state (state_on_host.hpp), on one
// rank and sharded over two, by Muon and AdamW, and of adapters beside weights in 4 bits; layers' inputs between
// forward and backward (offloaded_training.hpp), in a pipeline. Needs a GPU.
#include <weft/weft.cuh>

#include "offloaded_training.hpp"

namespace {
using namespace weft;
using namespace weft_test;

const training few_steps{.steps = 4, .batch = 2, .schedule = {.floor = 1}, .validation_sequences = 0, .print = false};
const llama_config tiny{.layers = 1, .hidden = 64, .heads = 2, .kv_heads = 2, .ffn = 64, .vocab = 256, .max_seq = 8};

TEST_CASE("cuda: Muon's and AdamW's state on the host, on one rank and under zero3") {
  for (const int ranks : {1, 2})
    trial_of_state<strategy<mesh<dp>, zero3, bf16_mixed, cuda_backend>>{{.dp = ranks}, tiny, few_steps}
        .check_state_on_host(by_shape{muon{.lr = 1e-2}, adamw{.lr = 1e-2}}, 1040);
}

TEST_CASE("cuda: QLoRA, AdamW's state on the host; its checkpoints and statistics") {
  const trial_of_state<strategy<mesh<dp>, bf16_mixed, nf4<lora<4>>, cuda_backend>> trial{{}, tiny, few_steps};
  trial.check_state_on_host(adamw{.lr = 1e-2}, 208);
  trial.check_files(adamw{.lr = 1e-2}, 208);
}

TEST_CASE("cuda: layers' inputs on the host between forward and backward") {
  check_offloaded<cuda_backend, checkpoint_full, mesh<pp>, bf16_mixed>({.pp = 2}, 6, {6, 3});
}

}  // namespace
