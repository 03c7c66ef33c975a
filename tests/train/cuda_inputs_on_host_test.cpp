// Training whose layers' inputs lie in the host's memory between forward and backward, on the CUDA kernels run on the
// host behind queues that run as late as they may, or copy as early (offloaded_training.hpp).
#include <backend/cuda/lazy_queue.hpp>

#include "offloaded_training.hpp"
#include "sample.hpp"

using namespace weft;
using namespace weft_test;

TEST_CASE("offloaded inputs: a pipeline of two chunks, recomputed in full" * doctest::skip(sanitized)) {
  check_offloaded<lazy_cuda_backend, checkpoint_full, mesh<pp>, interleaved<2>>({.pp = 2}, 12, {15, 9});
}
TEST_CASE("offloaded inputs: selective recomputation, weights' gradients put off" * doctest::skip(sanitized)) {
  check_offloaded<lazy_cuda_backend, checkpoint_selective, mesh<pp>, zb_h1, zero2>({.pp = 2}, 6, {6, 3});
}

TEST_CASE("offloaded inputs: of a stage's layers, two have theirs on the device, however many there are") {
  const auto most = [](std::int64_t layers) {
    using S = strategy<mesh<>, offloaded<>, lazy_cuda_backend>;
    const llama_config config{.layers = layers, .hidden = 64, .heads = 2, .vocab = 32, .max_seq = 64};
    return plan_training<llama, S>(config, {}, {.batch = 2}).memory.peak[activations];
  };
  CHECK(most(4) == most(3));
  CHECK(most(40) == most(3));
}
