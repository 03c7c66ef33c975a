// loss_in_chunks(n, f, x, targets) is f(x, targets): the sum, the count, every gradient, in whatever type, and what it
// refuses.
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

#include "said_by.hpp"

namespace {
using namespace weft;

struct outcome {
  double sum, count;
  std::vector<double> of_x, of_w;
};

template <class T>
std::vector<double> numbers(const T& x) {
  std::vector<double> out;
  for (const auto v : x.local_share()) out.push_back(double(v));
  return out;
}

constexpr std::int64_t length = 7, words = 11, width = 6;

// What cross-entropy of a product comes to in chunks; 0: at once.
template <class T>
outcome in_chunks(int chunks, double seed = 1, double smoothing = 0, bool within = false) {
  outcome out;
  launch<strategy<mesh<>>>({}, [&](context& ctx) {
    tape recorded;
    const recording on(ctx, &recorded);
    const auto x = normal<tensor<T, dims<batch, seq, hidden>>>(ctx, "x", {3, length, width}).requires_grad();
    const auto w = normal<tensor<T, dims<vocab, hidden>>>(ctx, "w", {words, width}).requires_grad();
    // every third is left out
    const auto ids = generate<tensor<std::int32_t, dims<batch, seq>>>(
        ctx, {3, length}, [](std::int64_t i) { return i % 3 ? i * 5 % words : -1; });
    const auto f = [w, smoothing](const auto& h, const auto& t) {
      return cross_entropy(contract<hidden>(h, w), t, {.label_smoothing = smoothing});
    };
    const auto h = 2 * x;
    if (chunks == 0) {
      const auto l = f(h, ids);
      out.sum = item(l.sum), out.count = item(l.count);
      backward(l.sum, seed);
    } else if (within) {
      const auto sum = checkpoint([=](const auto& y) { return loss_in_chunks<seq>(chunks, f, y, ids).sum; }, h);
      out.sum = item(sum), out.count = 0;
      backward(sum, seed);
    } else {
      const auto l = loss_in_chunks<seq>(chunks, f, h, ids);
      out.sum = item(l.sum), out.count = item(l.count);
      backward(l.sum, seed);
    }
    out.of_x = numbers(x.grad()), out.of_w = numbers(w.grad());
  });
  return out;
}

// Each number to `close` of the largest.
void check_same(const std::vector<double>& one, const std::vector<double>& other, double close) {
  REQUIRE(one.size() == other.size());
  double largest = 0, off = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    largest = std::max(largest, std::abs(one[i]));
    off = std::max(off, std::abs(one[i] - other[i]));
  }
  CHECK(largest > 0);
  CHECK(off <= close * largest);
}
template <class T>
void check_chunks(double close, double seed = 1, double smoothing = 0) {
  const outcome whole = in_chunks<T>(0, seed, smoothing);
  CHECK(whole.count == 14);
  for (const int chunks : {1, 2, 3, 7, 100}) {
    CAPTURE(chunks);
    const outcome cut = in_chunks<T>(chunks, seed, smoothing);
    CHECK(cut.count == whole.count);
    CHECK(cut.sum == doctest::Approx(whole.sum).epsilon(close));
    check_same(whole.of_x, cut.of_x, close);
    check_same(whole.of_w, cut.of_w, close);
  }
}
}  // namespace

// Sums of 21 tokens in another order: a few roundings of the type, of which fp64 has 1.1e-16, fp32 6e-8. In 16 bits a
// weight's gradient is rounded after every piece, here up to seven times by half a unit of 2^-8 (bf16), 2^-11 (fp16).
TEST_CASE("the loss and its gradients are those of the whole, with targets left out") {
  check_chunks<double>(1e-14);
  check_chunks<float>(1e-6);
  check_chunks<bf16>(4. / 256);
}
TEST_CASE("under a loss scale and with smoothed labels") {
  check_chunks<fp16>(4. / 2048, 1024);
  check_chunks<double>(1e-14, 3, 0.2);
}
TEST_CASE("within another function that runs again") {
  const outcome whole = in_chunks<double>(0), cut = in_chunks<double>(3, 1, 0, true);
  CHECK(cut.sum == doctest::Approx(whole.sum).epsilon(1e-14));
  check_same(whole.of_x, cut.of_x, 1e-14);
  check_same(whole.of_w, cut.of_w, 1e-14);
}

namespace {
// A loss of one's own whose count has a gradient, if it were asked: the squares of what is above the targets.
struct squares {
  template <class H, class T>
  auto operator()(const H& h, const T& t) const {
    const auto off = h - t;
    return loss{sum(square(off)), sum(0 * off + 1)};
  }
};
using row = tensor<double, dims<batch, seq, hidden>, shard<batch, dp>>;
}  // namespace
TEST_CASE("a loss of one's own, a batch that the ranks don't divide, twice, never, and with nothing recorded") {
  launch<strategy<mesh<dp>>>({.dp = 2}, [](context& ctx) {
    const auto x = normal<row>(ctx, "x", {3, 5, 4}).requires_grad(), y = normal<row>(ctx, "y", {3, 5, 4});
    const auto total = [&](const auto& l) {
      return std::pair(item(all_reduce<dp>(l.sum)), item(all_reduce<dp>(l.count)));
    };
    const auto [sum_of_whole, count_of_whole] = [&] {
      const no_grad off(ctx);
      return total(squares{}(x, y));
    }();
    CHECK(count_of_whole == 60);
    tape recorded;
    const recording on(ctx, &recorded);
    const auto never = loss_in_chunks<seq>(2, squares{}, x, y);
    const auto l = loss_in_chunks<seq>(3, squares{}, x, y), m = loss_in_chunks<seq>(2, squares{}, x, y);
    CHECK(total(l).first == doctest::Approx(sum_of_whole).epsilon(1e-14));
    CHECK(total(l).second == 60);
    backward(l.sum + m.sum);
    const row expected = 4 * (x - y);
    const auto g = x.grad();
    const double largest = item(all_reduce<dp>(sum(square(expected))));
    CHECK(item(all_reduce<dp>(sum(square(expected - g)))) <= 1e-28 * largest);
    const no_grad off(ctx);
    CHECK(total(loss_in_chunks<seq>(4, squares{}, x, y)).first == doctest::Approx(sum_of_whole).epsilon(1e-14));
  });
}
TEST_CASE("dropout on a piece, whose masks would be alike, is refused") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    auto x = full<tensor<double, dims<batch, seq, hidden>>>(ctx, {2, 6, 4}, 1.0);
    x.requires_grad();
    const scoped_value<std::int64_t> pass(ctx.pass, 3);
    const auto f = [](const auto& part, const auto& of_part) {
      return squares{}(training_dropout(part, 0.5, "piece"), of_part);
    };
    CHECK(weft_test::said_by([&] {
            (void)loss_in_chunks<seq>(2, f, x, x);
          }).find("dropout of \"piece\" within a piece of a loss in chunks would draw the same mask in each") == 0);
    CHECK(!ctx.in_piece);
    CHECK(weft_test::said_by([&] { (void)training_dropout(x, 0.5, "whole"); }) == "nothing");
  });
}

TEST_CASE("nothing to cut by, and two lengths, are refused") {
  launch<strategy<mesh<>>>({}, [](context& ctx) {
    using whole = tensor<double, dims<batch, seq, hidden>>;
    const auto x = full<whole>(ctx, {2, 5, 4}, 1.0), shorter = full<whole>(ctx, {2, 4, 4}, 1.0);
    CHECK(weft_test::said_by([&] { (void)loss_in_chunks<seq>(0, squares{}, x, x); }) ==
          "a loss is computed in at least 1 chunk, not 0");
    CHECK(weft_test::said_by([&] { (void)loss_in_chunks<seq>(2, squares{}, x, shorter); }) ==
          "a loss in chunks cuts seq, of which its input has 5 and its targets 4: give both the same extent");
  });
}
