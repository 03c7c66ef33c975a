// Policies of one's own, written against the concepts alone, train as the library's do.
#include "parallel/equals_serial.hpp"

namespace {
using namespace weft;

struct eager {  // two units ahead, three gather buffers
  static constexpr std::string_view name = "eager";
  static constexpr bool shards_parameters = true, shards_gradients = true, shards_optimizer = true;
  static constexpr int prefetch = 2;
  using axis = dp;
};
struct double_reduction {  // a precision: float everywhere, but gradients travel in double
  static constexpr std::string_view name = "double_reduction";
  using compute = float;
  using gradient = float;
  using reduce = double;
  using master = float;
};

template <class Sharding>
struct of {
  template <class P> using strategy = weft::strategy<mesh<dp, tp>, P, Sharding>;
};
}  // namespace

TEST_CASE("a policy that prefetches two units") { weft_test::check_meshes<of<eager>::strategy>(); }
TEST_CASE("a precision with a reduction type of its own") {
  const weft_test::task t{{.batch = 4, .micro_batches = 2}};
  using whole = strategy<mesh<dp, tp>, double_reduction>;
  using shared = strategy<mesh<dp, tp>, double_reduction, zero3, sequence_parallel>;
  const auto serial = weft_test::train<whole>({}, t);
  weft_test::check_equal(serial, weft_test::train<whole>({.dp = 2, .tp = 2}, t), weft_test::fp32_loss, weft_test::fp32_gradient);
  weft_test::check_equal(serial, weft_test::train<shared>({.dp = 2, .tp = 2}, t), weft_test::fp32_loss, weft_test::fp32_gradient);
}
TEST_CASE("one rank without threads") {
  weft_test::check_equal(weft_test::train<strategy<mesh<dp, tp>>>({}), weft_test::train<strategy<mesh<>, self>>({}), 0, 0);
  CHECK_THROWS_WITH_AS((weft_test::train<strategy<mesh<dp>, self>>({.dp = 2})), doctest::Contains("rank"), weft::error);
}
TEST_CASE("bug: tied embeddings get the gradient of one use") {
  weft_test::task t;
  t.model.tied_embeddings = true;
  const auto serial = weft_test::train<strategy<mesh<dp, tp>, fp64>>({}, t);
  using full = strategy<mesh<dp, tp>, fp64, zero3, checkpoint_full, sequence_parallel>;
  weft_test::check_equal(serial, weft_test::train<strategy<mesh<dp, tp>, fp64, replicated>>({.dp = 2, .tp = 2}, t), weft_test::fp64_loss,
                         weft_test::fp64_gradient);
  weft_test::check_equal(serial, weft_test::train<full>({.dp = 2, .tp = 4}, t), weft_test::fp64_loss, weft_test::fp64_gradient);
}
