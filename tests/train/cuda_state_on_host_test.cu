// Training whose optimizer's state lies in the host's memory, on a GPU (state_on_host.hpp): on one rank and sharded
// over two, by Muon and AdamW, and adapters beside weights in 4 bits. Needs a GPU.
#include <weft/weft.cuh>

#include "state_on_host.hpp"

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

}  // namespace
