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
class max_for_sum : public threads {
 public:
  explicit max_for_sum(threads inner) : threads(std::move(inner)) {}
  request reduce_scatter(const void* in, void* out, std::int64_t n, dtype t, reduction r,
                         const collective_label& l = {}) {
    return threads::reduce_scatter(in, out, n, t, r == reduction::sum ? reduction::max : r, l);
  }
  max_for_sum split(int color, int key, const char* name) { return max_for_sum(threads::split(color, key, name)); }
  template <class F>
  static void launch(int ranks, F&& f) {
    threads::launch(ranks, [&](threads& world) {
      max_for_sum own(world);
      f(own);
    });
  }
};

TEST_CASE("right policies pass") {
  CHECK_NOTHROW(testing::check_strategy<strategy<mesh<dp, tp>, eager, fp64, keeps_contractions>>({.dp = 2, .tp = 2}));
}

TEST_CASE("a communicator whose reduce-scatter takes the largest addend is told") {
  using wrong = strategy<mesh<dp>, zero3, fp64, max_for_sum>;
  CHECK_THROWS_WITH_AS(testing::check_strategy<wrong>({.dp = 2}, {{.steps = 2}}), doctest::Contains("gradient of "),
                       failure);
}

}  // namespace
