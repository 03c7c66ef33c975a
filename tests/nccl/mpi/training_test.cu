// Training on processes with a GPU each, over NCCL, beside the same on the CPU's threads: in bf16 with full
// recomputation, stages that send to each other, sharded parameters and tensor parallelism. Needs a GPU for each
// process.
#include <weft/backend/nccl_mpi.cuh>
#include <weft/weft.cuh>

#include "../../mpi/world.hpp"
#include "../../train/beside_cpu.hpp"
#include "../floats.cuh"

namespace {
using namespace weft;
using namespace weft_test;

const llama_config tiny{.layers = 2, .hidden = 16, .heads = 2, .kv_heads = 2, .ffn = 24, .vocab = 256, .max_seq = 8};

// One strategy, whatever the degrees, so the program is compiled once.
void check_over_nccl(const degrees& degrees) {
  const auto run = [&]<class... More>(tag_list<More...>, launch_options options = {.check = false}) {
    return train<llama<strategy<mesh<pp, dp, tp>, zero3, bf16_mixed, checkpoint_full, More...>>>(degrees, tiny, adamw{},
                                                                                                 options);
  };
  const auto own = static_cast<std::size_t>(mpi::process_rank());
  const trained want = run(tag_list<>{})[own], over = run(tag_list<cuda_backend, nccl_mpi>{})[own];
  REQUIRE(over.bits.size() > 1000);
  check_near(over, want, of_16_bits);
  // Calls are compared, without an alarm, and what NCCL moves lies in memory that is registered with it.
  const nccl_counts before;
  CHECK((run(tag_list<cuda_backend, nccl_mpi>{}, {.check = true, .registered_buffers = true})[own] == over));
  nccl_counts().check_all_registered_since(before);
}

TEST_CASE("nccl over MPI: a Llama in bf16, recomputed, on two stages, or two x zero3") {
  if (processes() % 2 == 0) check_over_nccl({.dp = processes() / 2, .pp = 2});
}
TEST_CASE("nccl over MPI: a Llama in bf16, recomputed, zero3, or that x tp") {
  if (processes() % 4 == 0) check_over_nccl({.dp = processes() / 2, .tp = 2});
  if (processes() == 2) check_over_nccl({.dp = 2});
}

}  // namespace
