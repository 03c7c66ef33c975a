// The installed law of a strategy passes policies of one's own that are right, and tells one that is wrong.
#include <doctest/doctest.h>

#include <weft/testing/strategy.hpp>

namespace {
using namespace weft;
using weft::mesh;

struct eager {  // two units ahead, three gather buffers
  static constexpr std::string_view name = "eager";
  static constexpr bool shards_parameters = true, shards_gradients = true, shards_optimizer = true;
  static constexpr int prefetch = 2;
  using axis = dp;
};
struct keeps_contractions {
  static constexpr std::string_view name = "keeps_contractions";
  static constexpr bool recomputes = true;
  static constexpr bool keeps(const op_cost& c) { return c.name == "contract"; }
};
// A communicator whose reduce-scatter takes the largest addend: right under replicated, wrong under zero3.
class max_for_sum : public comm_operations<max_for_sum> {
 public:
  explicit max_for_sum(threads inner) : inner_(std::move(inner)) {}
  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }
  request post(comm_call call) {
    if (call.is(comm_operation::reduce_scatter) && call.how == reduction::sum) call.how = reduction::max;
    return inner_.post(call);
  }
  max_for_sum split(int color, int key, const char* name) { return max_for_sum(inner_.split(color, key, name)); }
  template <class F>
  static void launch(int ranks, F&& f) {
    threads::launch(ranks, [&](threads& world) {
      max_for_sum own(world);
      f(own);
    });
  }

 private:
  threads inner_;
};

TEST_CASE("right policies pass") {
  CHECK_NOTHROW(testing::check_strategy<strategy<mesh<dp, tp>, eager, fp64, keeps_contractions>>({.dp = 2, .tp = 2}));
}

struct own_backend : cpu_backend {};
struct sends_16_bits {
  static constexpr std::string_view name = "sends_16_bits";
  using compute = float;
  using gradient = float;
  using reduce = bf16;
  using master = float;
};

TEST_CASE("the law's model has a layer for every stage, and the strategy's backend") {
  CHECK_NOTHROW(testing::check_strategy<strategy<mesh<pp>, own_backend, fp64>>({.pp = 4}, {{.steps = 2}}));
}

TEST_CASE("the law's model has a layer for every virtual stage, and the micro-batches that a schedule asks for") {
  CHECK_NOTHROW(testing::check_strategy<strategy<mesh<pp>, interleaved<2>, fp64>>({.pp = 2}, {{.steps = 2}}));
}

TEST_CASE("a precision that sends 16 bits is held to their rounding") {
  CHECK_NOTHROW(testing::check_strategy<strategy<mesh<dp>, zero1, sends_16_bits>>({.dp = 4}));
}

TEST_CASE("numbers that differ are printed so that one sees it") {
  testing::training_output one, all;
  one.losses = one.norms = all.norms = {1.25};
  all.losses = {1.2500000005};
  const auto lines = testing::disagreements(one, all, 1e-10, 1e-8);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == "loss of step 1: 1.25 on one rank and 1.2500000005 on all");
}

TEST_CASE("a communicator whose reduce-scatter takes the largest addend is told") {
  using wrong = strategy<mesh<dp>, zero3, fp64, max_for_sum>;
  CHECK_THROWS_WITH_AS(testing::check_strategy<wrong>({.dp = 2}, {{.steps = 2}}), doctest::Contains("gradient of "),
                       failure);
}

}  // namespace
