// Training in fp32 on GPUs over NCCL beside the same on the CPU's threads. Needs a GPU for each of four ranks.
#include <weft/backend/nccl.cuh>
#include <weft/weft.cuh>

#include "../train/beside_cpu.hpp"

namespace {
using namespace weft;
using namespace weft_test;

TEST_CASE("nccl: a Llama in fp32 on four ranks, zero3 x tp") {
  if (gpu::device_count() < 4) {
    MESSAGE("skipped: this machine has fewer than 4 GPUs");
    return;
  }
  const llama_config tiny{.layers = 2, .hidden = 16, .heads = 2, .kv_heads = 2, .ffn = 24, .vocab = 256, .max_seq = 8};
  const auto run = [&]<class... More>(tag_list<More...>) {
    return train<llama<strategy<mesh<dp, tp>, zero3, More...>>>({.dp = 2, .tp = 2}, tiny, adamw{});
  };
  const auto want = run(tag_list<>{}), over = run(tag_list<cuda_backend, nccl>{});
  REQUIRE(over[0].bits.size() > 1000);
  for (std::size_t rank = 0; rank < want.size(); ++rank) {
    CAPTURE(rank);
    check_near(over[rank], want[rank], of_fp32);
  }
  CHECK((run(tag_list<cuda_backend, nccl>{}) == over));
}

}  // namespace
