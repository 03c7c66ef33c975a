// Training on GPUs over NCCL beside the same on the CPU's threads, in bf16 with full recomputation: stages that send to
// each other, sharded parameters and tensor parallelism. Needs a GPU for each of four ranks, or of eight.
#include <weft/backend/nccl.cuh>
#include <weft/weft.cuh>

#include "../train/beside_cpu.hpp"
#include "floats.cuh"

namespace {
using namespace weft;
using namespace weft_test;

const llama_config tiny{.layers = 2, .hidden = 16, .heads = 2, .kv_heads = 2, .ffn = 24, .vocab = 256, .max_seq = 8};

// On so many ranks as there are GPUs for: one strategy, whatever the degrees, so the program is compiled once.
void check_over_nccl(const degrees& degrees) {
  if (gpu::device_count() < degrees.product()) {
    MESSAGE("skipped: this machine has ", gpu::device_count(), " GPUs, not ", degrees.product());
    return;
  }
  const auto run = [&]<class... More>(tag_list<More...>, launch_options options = {.check = false}) {
    return train<llama<strategy<mesh<pp, dp, tp>, zero3, bf16_mixed, checkpoint_full, More...>>>(degrees, tiny, adamw{},
                                                                                                 options);
  };
  const auto want = run(tag_list<>{}), over = run(tag_list<cuda_backend, nccl>{});
  REQUIRE(over[0].bits.size() > 1000);
  for (std::size_t rank = 0; rank < want.size(); ++rank) {
    CAPTURE(rank);
    check_near(over[rank], want[rank], of_16_bits);
  }
  const nccl_counts before;
  CHECK((run(tag_list<cuda_backend, nccl>{}, {.check = false, .registered_buffers = true}) == over));
  nccl_counts().check_all_registered_since(before);
}

TEST_CASE("nccl: a Llama in bf16, recomputed, on two stages x zero3") { check_over_nccl({.dp = 2, .pp = 2}); }
TEST_CASE("nccl: a Llama in bf16, recomputed, zero3 x tp") { check_over_nccl({.dp = 2, .tp = 2}); }
TEST_CASE("nccl: a Llama in bf16, recomputed, on eight ranks, two stages x zero3 x tp") {
  check_over_nccl({.dp = 2, .tp = 2, .pp = 2});
}

}  // namespace
