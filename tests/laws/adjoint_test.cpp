// weft/testing/adjoint.hpp as a user takes it: conversions along an axis of one's own and over a communicator of one's
// own pass, and what is wrong in a backward, in a value or in a collective is told.
#include <atomic>

#include <doctest/doctest.h>

#include <weft/op/convert.hpp>
#include <weft/op/formula.hpp>
#include <weft/op/scalar.hpp>
#include <weft/testing/adjoint.hpp>

#include "sample.hpp"

namespace {
using namespace weft;

struct rows : axis_tag {
  static constexpr std::string_view name = "rows";
};
struct pixel : dim_tag {
  static constexpr std::string_view name = "pixel";
};
enum class fault { none, reduce_scatter, all_gather };

/// Threads whose all-gathers are counted, or which do one thing wrong on groups of several ranks.
template <fault Wrong>
class own_threads : public comm_operations<own_threads<Wrong>> {
 public:
  static inline std::atomic<int> gathers = 0;
  explicit own_threads(threads inner) : inner_(std::move(inner)) {}
  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }
  request post(const comm_call& call) {
    gathers += call.is(comm_operation::all_gather);
    request done = inner_.post(call);
    if (!call.is(comm_operation::reduce_scatter) && !call.is(comm_operation::all_gather)) return done;
    done.wait();
    auto* out = static_cast<double*>(call.out);
    if (Wrong == fault::reduce_scatter && call.computes() && size() > 1 && call.count > 0 && call.type == dtype::f64)
      out[call.count - 1] += 1;
    if (Wrong == fault::all_gather && !call.computes() && size() > 1 && call.count > 7) out[0] += rank();
    return done;
  }
  own_threads split(int color, int key, const char* name) { return own_threads(inner_.split(color, key, name)); }
  template <class F>
  static void launch(int ranks, F&& f) {
    threads::launch(ranks, [&](threads& world) {
      own_threads own(world);
      f(own);
    });
  }

 private:
  threads inner_;
};
template <fault Wrong = fault::none>
using line = strategy<mesh<rows>, own_threads<Wrong>>;
using d2 = dims<batch, pixel>;
using slices = tensor<double, d2, shard<pixel, rows>>;
using pending = tensor<double, d2, partial<rows>>;
const testing::options sample{.every = weft_test::sample_stride()};
const auto gather = [](const auto& x) { return all_gather<rows>(x); };
const auto scatter = [](const auto& x) { return reduce_scatter<pixel, rows>(x); };

TEST_CASE("conversions along an axis and over a communicator of one's own pass") {
  testing::check_conversion<line<>, slices>("all_gather", gather, sample);
  testing::check_conversion<line<>, pending>("reduce_scatter", scatter, sample);
  testing::check_conversion<line<>, slices>(
      "all_to_all", [](const auto& x) { return all_to_all<batch, rows>(x); }, sample);
  const auto thrice = [](const auto& x) { return 3.0 * x; };
  testing::check_adjoint<line<>, slices>("three times", thrice, sample);
  if (weft_test::sample_stride() == 1) CHECK(own_threads<fault::none>::gathers > 0);
}

struct half_back {  // the forward doubles, the backward doesn't
  static constexpr std::string_view name = "half_back";
  static constexpr linearity linear = linearity::joint;
  double forward(double x) const { return 2 * x; }
  double vjp(double dy) const { return dy; }
};

TEST_CASE("a backward that isn't the transpose, a value that changes, and zeros are told") {
  const auto half = [] {
    testing::check_adjoint<line<>, slices>(
        "half", [](const auto& x) { return elementwise(half_back{}, x); }, sample);
  };
  CHECK_THROWS_WITH_AS(half(), doctest::Contains("the backward is not the transpose of the forward"), failure);
  const auto twice = [] {
    testing::check_conversion<line<>, slices>(
        "twice", [](const auto& x) { return 2.0 * x; }, sample);
  };
  CHECK_THROWS_WITH_AS(twice(), doctest::Contains("after the conversion, and was"), failure);
  const auto zero = [] {
    testing::check_adjoint<line<>, slices>(
        "zero", [](const auto& x) { return 0.0 * x; }, sample);
  };
  CHECK_THROWS_WITH_AS(zero(), doctest::Contains("every product is zero, so nothing was tested"), failure);
}

TEST_CASE("a communicator that does one thing wrong is told by the conversions that use it") {
  if (weft_test::sample_stride() > 1) return;  // needs a mesh of several ranks
  using adds = line<fault::reduce_scatter>;
  CHECK_THROWS_WITH_AS((testing::check_conversion<adds, pending>("scatter", scatter)), doctest::Contains("rows 2"),
                       failure);
  CHECK_THROWS_WITH_AS((testing::check_adjoint<adds, slices>("gather", gather)),
                       doctest::Contains("the backward is not the transpose"), failure);
  CHECK_THROWS_WITH_AS((testing::check_adjoint<line<fault::all_gather>, slices>("gather", gather)),
                       doctest::Contains("differs between the ranks along rows"), failure);
}

}  // namespace
