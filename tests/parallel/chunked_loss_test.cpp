// The loss in chunks of the sequence is the loss: sums, counts and every gradient, whatever is sharded, tied or staged.
#include "parallel/training.hpp"

namespace {
using namespace weft;
using weft_test::check_equal;
using weft_test::task;
using weft_test::train;

// Sums over tokens are added up in another order, each rounded to 1.1e-16; the largest gradients are sums of a few
// hundred products, and pass through two layers. One step, so that AdamW multiplies nothing.
constexpr double close = 1e-12;
const task one_step{{.batch = 4, .seq = 16, .steps = 1, .micro_batches = 2}};

template <class Mesh, int Chunks, class... Policies>
void check(const degrees& ranks, task t = one_step) {
  const auto whole = train<strategy<Mesh, fp64, Policies...>>(ranks, t);
  check_equal(whole, train<strategy<Mesh, fp64, chunked_loss<Chunks>, Policies...>>(ranks, t), close, close);
}
}  // namespace

TEST_CASE("one rank") {
  check<mesh<>, 4>({});
}
