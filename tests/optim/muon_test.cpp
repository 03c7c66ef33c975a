// Muon and SGD over single tensors: the formulas, written out once more here; matrices by type; uneven shards, whose
// padding must not show.
#include <cmath>
#include <mutex>
#include <vector>

#include <doctest/doctest.h>

#include <weft/op/create.hpp>
#include <weft/op/to_host.hpp>
#include <weft/optim/adamw.hpp>
#include <weft/optim/muon.hpp>
#include <weft/optim/sgd.hpp>
#include <weft/parallel/launch.hpp>

using namespace weft;

namespace {

using matrix = std::vector<double>;
using S = strategy<mesh<dp, tp>>;

double number(std::uint64_t seed, std::int64_t i) { return philox{seed, 3}.normal(static_cast<std::uint64_t>(i)); }
matrix random_matrix(std::int64_t n, std::uint64_t seed) {
  matrix out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back(number(seed, i));
  return out;
}
double& at(matrix& a, std::int64_t i) { return a[static_cast<std::size_t>(i)]; }
double at(const matrix& a, std::int64_t i) { return a[static_cast<std::size_t>(i)]; }

// x x^T x of rows x columns, and a x + b (x x^T) x + c (x x^T)^2 x after it.
matrix times_gram(const matrix& x, const matrix& y, std::int64_t rows, std::int64_t columns) {  // (x x^T) y
  matrix out(x.size());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t k = 0; k < rows; ++k) {
      double dot = 0;
      for (std::int64_t j = 0; j < columns; ++j) dot += at(x, i * columns + j) * at(x, k * columns + j);
      for (std::int64_t j = 0; j < columns; ++j) at(out, i * columns + j) += dot * at(y, k * columns + j);
    }
  return out;
}
matrix orthogonal(matrix x, std::int64_t rows, std::int64_t columns) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  for (double& v : x) v /= std::sqrt(squares) + 1e-7;
  for (int i = 0; i < 5; ++i) {
    const matrix once = times_gram(x, x, rows, columns), twice = times_gram(x, once, rows, columns);
    for (std::size_t j = 0; j < x.size(); ++j) x[j] = 3.4445 * x[j] - 4.7750 * once[j] + 2.0315 * twice[j];
  }
  return x;
}
// Weights after `steps` steps of Muon whose gradient of step t is random_matrix(n, t).
matrix reference(const muon& o, matrix w, std::int64_t rows, std::int64_t columns, int steps) {
  matrix velocity(w.size());
  for (int t = 1; t <= steps; ++t) {
    const matrix g = random_matrix(rows * columns, static_cast<std::uint64_t>(t));
    matrix direction(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      velocity[i] = o.momentum * velocity[i] + g[i];
      direction[i] = o.nesterov ? g[i] + o.momentum * velocity[i] : velocity[i];
    }
    direction = orthogonal(direction, rows, columns);
    const double amount = o.lr * 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = (1 - o.lr * o.weight_decay) * w[i] - amount * direction[i];
  }
  return w;
}

template <class W, class F>
W made(context& ctx, const shape& sizes, F&& f) {
  if constexpr (dims_of<W>::ndim == 1)
    return generate<W>(ctx, {sizes[0]}, f);
  else if constexpr (dims_of<W>::ndim == 2)
    return generate<W>(ctx, {sizes[0], sizes[1]}, f);
  else
    return generate<W>(ctx, {sizes[0], sizes[1], sizes[2]}, f);
}
// The weights after `steps` steps, as a global array; of gradients as the reference's, with NaN in their padding.
template <class W, class O>
matrix stepped(const shape& sizes, const O& o, int steps, const degrees& ranks = {}) {
  matrix out(static_cast<std::size_t>(sizes.elements()), NAN);
  std::mutex lock;
  launch<S>(ranks, [&](context& ctx) {
    auto w = made<W>(ctx, sizes, [](std::int64_t i) { return number(9, i); });
    optimizer_state state;
    for (int t = 1; t <= steps; ++t) {
      auto g = made<W>(ctx, sizes, [&](std::int64_t i) { return number(static_cast<std::uint64_t>(t), i); });
      g.write_local_share([&](auto numbers) {  // padding holds anything
        detail::each_element(detail::placed(g), [&](std::int64_t i, std::int64_t global) {
          if (global < 0) numbers[static_cast<std::size_t>(i)] = NAN;
        });
      });
      optimizer_update(w, g, state, o);
    }
    const auto share = local_share_on_host(w);
    const std::lock_guard guard(lock);
    detail::each_element(detail::placed(w), [&](std::int64_t i, std::int64_t global) {
      if (global >= 0) at(out, global) = share[static_cast<std::size_t>(i)];
    });
  });
  return out;
}
double worst(const matrix& a, const matrix& b) {
  REQUIRE(a.size() == b.size());
  double off = 0;
  for (std::size_t i = 0; i < a.size(); ++i) off = std::max(off, std::abs(a[i] - b[i]));
  return off;
}

struct pixel : dim_tag {
  static constexpr std::string_view name = "pixel";
};
struct group_of : dim_tag {
  static constexpr std::string_view name = "group";
  static constexpr auto matrix_role = weft::matrix_role::stacked;
};

template <class... Ds>
inline constexpr bool are_matrices = has_matrix_form<tensor<float, dims<Ds...>>>;
static_assert(are_matrices<ffn, hidden>);
static_assert(are_matrices<heads, head_dim, hidden>);
static_assert(are_matrices<hidden, pixel>);
static_assert(are_matrices<group_of, pixel, hidden>);
static_assert(!are_matrices<hidden>);
static_assert(!are_matrices<heads, head_dim>);  // a bias
static_assert(!are_matrices<group_of, pixel>);
static_assert(!are_matrices<vocab, hidden>);
static_assert(!are_matrices<seq, hidden>);

}  // namespace

TEST_CASE("Muon's steps are the formula's, wide and tall, with and without Nesterov") {
  using W = tensor<double, dims<ffn, hidden>>;
  for (const auto& [rows, columns] : {std::pair{5, 8}, std::pair{8, 5}, std::pair{6, 6}, std::pair{1, 4}})
    for (const bool nesterov : {true, false}) {
      const muon o{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.2, .nesterov = nesterov};
      const matrix expected = reference(o, random_matrix(rows * columns, 9), rows, columns, 3);
      CHECK(worst(stepped<W>({2, {rows, columns}}, o, 3), expected) < 1e-12);
    }
}

TEST_CASE("a matrix is orthogonal afterwards, about, and a matrix of zeros stays one") {
  launch<S>({}, [](context& ctx) {
    for (const bool zeros : {false, true}) {
      const auto x = ctx.make(dtype::f64, {1, {2 * 6 * 9}});
      auto* numbers = x.as<double>();
      for (std::int64_t i = 0; i < x.elements(); ++i) numbers[i] = zeros ? 0 : number(1, i);
      muon{}.change(whole_matrices<cpu_backend, double>{ctx, 2, 6, 9, numbers});
      for (int m = 0; m < 2; ++m)
        for (int i = 0; i < 6; ++i)
          for (int k = 0; k < 6; ++k) {
            double dot = 0;
            for (int j = 0; j < 9; ++j) dot += numbers[m * 54 + i * 9 + j] * numbers[m * 54 + k * 9 + j];
            CHECK(std::abs(dot - (i == k && !zeros)) < (zeros ? 1e-300 : 0.6));
          }
    }
  });
}

TEST_CASE("a matrix for each head, wherever its dimensions stand") {
  const muon o{.lr = 0.1};
  const matrix all = stepped<tensor<double, dims<heads, head_dim, hidden>>>({3, {2, 3, 4}}, o, 1);
  const matrix inside = stepped<tensor<double, dims<hidden, heads, head_dim>>>({3, {4, 2, 3}}, o, 1);
  const auto expected = [&](auto&& index, std::int64_t rows, std::int64_t columns) {
    matrix g;
    for (std::int64_t i = 0; i < rows * columns; ++i) g.push_back((1 + o.momentum) * number(1, index(i)));
    const matrix direction = orthogonal(g, rows, columns);
    matrix w;
    for (std::int64_t i = 0; i < rows * columns; ++i)
      w.push_back((1 - o.lr * o.weight_decay) * number(9, index(i)) - o.lr * 0.2 * 2 * at(direction, i));
    return w;
  };
  for (std::int64_t h = 0; h < 2; ++h) {
    const auto first = [&](std::int64_t i) { return h * 12 + i; };
    const auto middle = [&](std::int64_t i) { return i / 3 * 6 + h * 3 + i % 3; };
    const matrix one = expected(first, 3, 4), two = expected(middle, 4, 3);
    for (std::int64_t i = 0; i < 12; ++i) {
      CHECK(at(all, first(i)) == doctest::Approx(at(one, i)).epsilon(1e-12));
      CHECK(at(inside, middle(i)) == doctest::Approx(at(two, i)).epsilon(1e-12));
    }
  }
}

TEST_CASE("sharded over tp, by rows, columns or heads, evenly or not, a step is one rank's, with NaN in the padding") {
  const muon o{.lr = 0.1};
  const auto on = [&]<class W>(W, const shape& sizes, const degrees& ranks) { return stepped<W>(sizes, o, 2, ranks); };
  using whole = tensor<double, dims<ffn, hidden>>;
  using rows = tensor<double, dims<ffn, hidden>, shard<ffn, tp>>;
  using columns = tensor<double, dims<ffn, hidden>, shard<hidden, tp>>;
  using both = tensor<double, dims<ffn, hidden>, shard<ffn, dp>, shard<hidden, tp>>;
  for (const auto& sizes : {shape{2, {8, 4}}, shape{2, {7, 5}}, shape{2, {2, 7}}}) {
    const matrix one = on(whole{}, sizes, {});
    CHECK(worst(on(rows{}, sizes, {.tp = 3}), one) < 1e-12);
    CHECK(worst(on(columns{}, sizes, {.tp = 3}), one) < 1e-12);
    CHECK(worst(on(both{}, sizes, {.dp = 2, .tp = 4}), one) < 1e-12);
  }
  using per_head = tensor<double, dims<heads, head_dim, hidden>>;
  using over_heads = tensor<double, dims<heads, head_dim, hidden>, shard<heads, tp>>;
  const matrix one = on(per_head{}, {3, {5, 2, 3}}, {});
  CHECK(worst(on(over_heads{}, {3, {5, 2, 3}}, {.tp = 2}), one) < 1e-12);
  CHECK(worst(on(over_heads{}, {3, {5, 2, 3}}, {.tp = 4}), one) < 1e-12);  // the last rank has none
}

TEST_CASE("SGD's steps are the formula's") {
  using W = tensor<double, dims<hidden>>;
  for (const bool nesterov : {false, true}) {
    const sgd o{.lr = 0.1, .momentum = 0.8, .weight_decay = 0.3, .nesterov = nesterov};
    matrix w = random_matrix(5, 9), velocity(5);
    for (std::uint64_t t = 1; t <= 3; ++t)
      for (std::size_t i = 0; i < 5; ++i) {
        const double g = number(t, static_cast<std::int64_t>(i));
        velocity[i] = o.momentum * velocity[i] + g;
        w[i] = (1 - o.lr * o.weight_decay) * w[i] - o.lr * (nesterov ? g + o.momentum * velocity[i] : velocity[i]);
      }
    CHECK(worst(stepped<W>({1, {5}}, o, 3), w) < 1e-14);
  }
}

TEST_CASE("in 16 bits master weights take the steps") {
  launch<S>({}, [](context& ctx) {
    using W = tensor<bf16, dims<ffn, hidden>>;
    auto w = full<W>(ctx, {4, 4}, 1.0);
    auto still = full<W>(ctx, {4, 4}, 1.0);
    const auto g = full<W>(ctx, {4, 4}, 1.0);
    optimizer_state state, other;
    for (int t = 0; t < 40; ++t) {
      optimizer_update(w, g, state, sgd{.lr = 1e-4, .momentum = 0});
      optimizer_update(still, g, other, muon{.lr = 2e-3, .weight_decay = 0});
    }
    // Each step alone is less than a bf16 number near 1 can show.
    for (const auto x : on_host(w)) CHECK(static_cast<float>(x) == doctest::Approx(1 - 40e-4).epsilon(0.004));
    CHECK(static_cast<float>(on_host(still)[0]) < 1);
  });
}

TEST_CASE("numbers without a meaning, and states of another optimizer, are refused") {
  launch<S>({}, [](context& ctx) {
    using W = tensor<float, dims<ffn, hidden>>;
    auto w = full<W>(ctx, {4, 4}, 1.0);
    const auto g = full<W>(ctx, {4, 4}, 1.0);
    optimizer_state state;
    const auto refuses = [&](const auto& o, const char* sentence) {
      CHECK_THROWS_WITH_AS(optimizer_update(w, g, state, o), doctest::Contains(sentence), failure);
    };
    refuses(muon{.lr = -1}, "Muon's lr is -1");
    refuses(muon{.momentum = 1}, "Muon's momentum is 1");
    refuses(muon{.weight_decay = NAN}, "Muon's weight_decay is");
    refuses(muon{.iterations = 0}, "Muon's iterations are 0");
    refuses(sgd{.lr = NAN}, "SGD's lr is");
    refuses(sgd{.momentum = -0.1}, "SGD's momentum is -0.1");
    refuses(sgd{.weight_decay = -1}, "SGD's weight_decay is -1");
    CHECK_THROWS_WITH_AS(optimizer_update(w, g, state, muon{}, INFINITY),
                         doctest::Contains("Muon's gradient is multiplied by inf"), failure);
    optimizer_update(w, g, state, muon{});
    refuses(adamw{}, "this optimizer_state is of Muon, and this step of AdamW");
    refuses(sgd{}, "this optimizer_state is of Muon, and this step of SGD");
    CHECK_THROWS_WITH_AS(check(by_shape{muon{.lr = 0.1}, adamw{}, 0.0}), doctest::Contains("by_shape's lr"), failure);
    CHECK(by_shape{muon{.lr = 0.1}, sgd{.lr = 0}}.lr == 0.1);
    CHECK_THROWS_WITH_AS(check(by_shape{muon{.lr = -1}, adamw{}}), doctest::Contains("Muon's lr"), failure);
    CHECK_THROWS_WITH_AS(check(by_shape{muon{}, adamw{.eps = 0}}), doctest::Contains("AdamW's eps"), failure);
  });
}
