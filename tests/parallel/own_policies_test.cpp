// Policies of one's own, written against the concepts alone, train as the library's do.
#include "comm/unsteady.hpp"
#include "parallel/equals_serial.hpp"
#include "policy/weights_last.hpp"

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

struct keeps_attention {  // a checkpointing: attention's output is kept, and what fits into a byte for a thousand
                          // operations
  static constexpr std::string_view name = "keeps_attention";
  static constexpr bool recomputes = true;
  static constexpr bool keeps(const op_cost& c) {
    return c.name == "attention" || c.flops > 1000.0 * double(c.kept_bytes);
  }
};
using weft_test::unsteady;      // a communicator
using weft_test::weights_last;  // a schedule

template <class Sharding>
struct of {
  template <class P>
  using strategy = weft::strategy<mesh<dp, tp>, P, Sharding>;
};
}  // namespace

TEST_CASE("a policy that prefetches two units") { weft_test::check_meshes<of<eager>::strategy>(); }
TEST_CASE("a precision with a reduction type of its own") {
  const weft_test::task t{{.batch = 4, .micro_batches = 2}};
  using whole = strategy<mesh<dp, tp>, double_reduction>;
  using shared = strategy<mesh<dp, tp>, double_reduction, zero3, sequence_parallel>;
  const auto serial = weft_test::train<whole>({}, t);
  weft_test::check_equal(serial, weft_test::train<whole>({.dp = 2, .tp = 2}, t), weft_test::fp32_loss,
                         weft_test::fp32_gradient);
  weft_test::check_equal(serial, weft_test::train<shared>({.dp = 2, .tp = 2}, t), weft_test::fp32_loss,
                         weft_test::fp32_gradient);
}
TEST_CASE("a checkpointing that keeps what it likes") {
  using own = strategy<mesh<dp, tp>, fp64, zero3, keeps_attention, sequence_parallel>;
  const auto serial = weft_test::train<strategy<mesh<dp, tp>, fp64>>({});
  weft_test::check_equal(serial, weft_test::train<own>({.dp = 2, .tp = 2}), weft_test::fp64_loss,
                         weft_test::fp64_gradient);
}
TEST_CASE("a schedule that computes all gradients of weights last") {
  weft_test::task t{{.batch = 4, .micro_batches = 3}};
  t.model.layers = 4;
  const auto serial = weft_test::train<strategy<mesh<>, fp64>>({}, t);
  using staged = strategy<mesh<dp, pp>, fp64, weights_last, zero2, checkpoint_full>;
  for (const degrees& d : {degrees{.dp = 2, .pp = 2}, degrees{.pp = 4}})
    weft_test::check_equal(serial, weft_test::train<staged>(d, t), weft_test::fp64_loss, weft_test::fp64_gradient);
}
TEST_CASE("a communicator whose every operation is late") {
  const weft_test::task t{{.batch = 4, .steps = 3, .micro_batches = 2}};
  using late = strategy<mesh<dp, tp, pp>, fp64, zero3, sequence_parallel, unsteady<threads>>;
  weft_test::check_equal(weft_test::train<strategy<mesh<>, fp64>>({}, t),
                         weft_test::train<late>({.dp = 2, .tp = 2, .pp = 2}, t), weft_test::fp64_loss,
                         weft_test::fp64_gradient);
}
TEST_CASE("one rank without threads") {
  weft_test::check_equal(weft_test::train<strategy<mesh<dp, tp>>>({}),
                         weft_test::train<strategy<mesh<>, single_rank>>({}), 0, 0);
  CHECK_THROWS_WITH_AS((weft_test::train<strategy<mesh<dp>, single_rank>>({.dp = 2})), doctest::Contains("rank"),
                       weft::failure);
}
TEST_CASE("bug: tied embeddings get the gradient of one use") {
  weft_test::task t;
  t.model.tied_embeddings = true;
  const auto serial = weft_test::train<strategy<mesh<dp, tp>, fp64>>({}, t);
  using full = strategy<mesh<dp, tp>, fp64, zero3, checkpoint_full, sequence_parallel>;
  weft_test::check_equal(serial, weft_test::train<strategy<mesh<dp, tp>, fp64, replicated>>({.dp = 2, .tp = 2}, t),
                         weft_test::fp64_loss, weft_test::fp64_gradient);
  weft_test::check_equal(serial, weft_test::train<full>({.dp = 2, .tp = 4}, t), weft_test::fp64_loss,
                         weft_test::fp64_gradient);
}
