// A contraction with a bias is the contraction and the sum, to the bit, and so is gelu of it; but for one entry on the
// tape, no array between them, and a backend's own pass where it has one.
#include <algorithm>
#include <cmath>
#include <ostream>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;

struct calls {
  int products = 0, with_bias = 0, with_gelu = 0, sums = 0;
  friend bool operator==(const calls&, const calls&) = default;
  friend std::ostream& operator<<(std::ostream& to, const calls& c) {
    return to << c.products << " products, " << c.with_bias << " with bias, " << c.with_gelu << " with gelu, " << c.sums
              << " sums";
  }
};
thread_local calls counted;

struct counting_backend : cpu_backend {
  template <class T, class Out>
  static void matmul(queue& q, const matmul_shape& size, const T* a, const strides& sa, const T* b, const strides& sb,
                     Out* c, const strides& sc, bool add) {
    ++counted.products;
    cpu_backend::matmul(q, size, a, sa, b, sb, c, sc, add);
  }
  using cpu_backend::apply;
  template <class... Args>
  static void apply(queue& q, const binary& f, const Args&... args) {
    counted.sums += f == binary::add;
    cpu_backend::apply(q, f, args...);
  }
};
// One with a pass of its own, which rounds once.
struct fusing_backend : counting_backend {
  using counting_backend::matmul;
  template <class T>
  static bool matmul(queue&, const matmul_shape& size, const T* a, const strides& sa, const T* b, const strides& sb,
                     T* c, const strides& sc, const matmul_epilogue& after) {
    ++(after.before_gelu ? counted.with_gelu : counted.with_bias);
    REQUIRE(size.batch == 1);
    REQUIRE(sc.column == 1);
    for (std::int64_t i = 0; i < size.m; ++i)
      for (std::int64_t j = 0; j < size.n; ++j) {
        float sum = static_cast<float>(static_cast<const T*>(after.bias)[j]);
        for (std::int64_t k = 0; k < size.k; ++k)
          sum += static_cast<float>(a[i * sa.row + k * sa.column]) * static_cast<float>(b[k * sb.row + j * sb.column]);
        const std::int64_t at = i * sc.row + j;
        if (after.before_gelu) {
          static_cast<T*>(after.before_gelu)[at] = T(sum);
          sum *= 0.5f * (1 + std::tanh(0.79788456f * (sum + 0.044715f * sum * sum * sum)));
        }
        c[at] = T(sum);
      }
    return true;
  }
};

struct keeps_products {
  static constexpr std::string_view name = "products";
  static constexpr bool recomputes = true;
  static bool keeps(const op_cost& c) { return c.name == "contract"; }
};

template <class Backend, class T, class Dims>
using of = basic_tensor<T, Dims, place<>, Backend>;

struct outcome {
  std::vector<double> y, da, db, dbias;
  std::size_t entries = 0, kept = 0;
  calls forward, backward;
};
enum class way { apart, at_once };
// Over [5, 3, 6] x [2, 4, 6] to [5, 3, 2, 4].
template <class Policy, class Backend, class T, bool Gelu, class Bias>
outcome run(context& ctx, way w, std::initializer_list<std::int64_t> bias_extents, std::int64_t rows = 5) {
  outcome out;
  const auto a = normal<of<Backend, T, dims<batch, seq, hidden>>>(ctx, "a", {rows, 3, 6}).requires_grad();
  const auto b = normal<of<Backend, T, dims<heads, head_dim, hidden>>>(ctx, "b", {2, 4, 6}).requires_grad();
  const auto bias = normal<of<Backend, T, Bias>>(ctx, "bias", bias_extents).requires_grad();
  tape recorded;
  const recording on(ctx, &recorded);
  const auto apply = [=](const auto& in) {
    if constexpr (Gelu)
      return w == way::apart ? gelu(contract<hidden>(in, b) + bias) : contract_gelu<hidden>(in, b, bias);
    else
      return w == way::apart ? contract<hidden>(in, b) + bias : contract<hidden>(in, b, bias);
  };
  counted = {};
  const auto before = ctx.memory.ledger().current[std::size_t(memory::activations)];
  const auto y = [&] {
    if constexpr (std::same_as<Policy, void>)
      return apply(scale(a, 2.0));
    else
      return checkpoint<Policy>(apply, scale(a, 2.0));
  }();
  out.forward = std::exchange(counted, {});
  out.entries = recorded.size();
  out.kept = ctx.memory.ledger().current[std::size_t(memory::activations)] - before;
  out.y = on_host(cast<double>(detach(y)));
  backward(sum(y * y));
  out.backward = counted;
  out.da = on_host(cast<double>(a.grad())), out.db = on_host(cast<double>(b.grad()));
  out.dbias = on_host(cast<double>(bias.grad()));
  return out;
}

void same_numbers(const outcome& one, const outcome& two) {
  CHECK(one.y == two.y);
  CHECK(one.da == two.da);
  CHECK(one.db == two.db);
  CHECK(one.dbias == two.dbias);
}
template <class Policy, class T, bool Gelu, class Bias>
void same_bits(context& ctx, std::initializer_list<std::int64_t> bias) {
  const auto two = run<Policy, counting_backend, T, Gelu, Bias>(ctx, way::apart, bias),
             one = run<Policy, counting_backend, T, Gelu, Bias>(ctx, way::at_once, bias);
  same_numbers(one, two);
  CHECK(one.kept <= two.kept);
  CHECK(one.forward == calls{.products = 1, .sums = 1});
}

}  // namespace

TEST_CASE_TEMPLATE("a contraction with a bias is the two operators, to the bit", T, double, float, bf16, fp16) {
  launch<strategy<mesh<>, counting_backend>>({}, [](context& ctx) {
    same_bits<void, T, false, dims<heads, head_dim>>(ctx, {2, 4});
    same_bits<void, T, true, dims<heads, head_dim>>(ctx, {2, 4});
    if constexpr (sizeof(T) != 2) return;
    same_bits<void, T, false, dims<head_dim>>(ctx, {4});
    same_bits<void, T, false, dims<head_dim, heads>>(ctx, {4, 2});
    same_bits<void, T, true, dims<seq>>(ctx, {3});
    same_bits<checkpoint_full, T, true, dims<heads, head_dim>>(ctx, {2, 4});
    same_bits<keeps_products, T, false, dims<heads, head_dim>>(ctx, {2, 4});
    same_bits<keeps_products, T, true, dims<batch, heads>>(ctx, {5, 2});
  });
}

TEST_CASE("a bias takes no entry of its own; a product that is kept isn't computed again, nor its bias added") {
  launch<strategy<mesh<>, counting_backend>>({}, [](context& ctx) {
    using bias = dims<heads, head_dim>;
    const auto two = run<void, counting_backend, float, true, bias>(ctx, way::apart, {2, 4}),
               one = run<void, counting_backend, float, true, bias>(ctx, way::at_once, {2, 4});
    CHECK(two.entries == 4);  // scale, contract, +, gelu
    CHECK(one.entries == 3);
    const auto kept = run<keeps_products, counting_backend, float, true, bias>(ctx, way::at_once, {2, 4});
    CHECK(kept.backward == calls{.products = 2});  // the gradients
    const auto again = run<checkpoint_full, counting_backend, float, true, bias>(ctx, way::at_once, {2, 4});
    CHECK(again.backward == calls{.products = 3, .sums = 1});
  });
}

TEST_CASE_TEMPLATE("a backend's own pass is taken where the bias lies along rows; else the bias is added", T, float,
                   bf16) {
  launch<strategy<mesh<>, fusing_backend>>({}, [](context& ctx) {
    const auto near = [&]<class Policy, bool Gelu, class Bias>(std::initializer_list<std::int64_t> bias,
                                                               std::int64_t rows, const calls& expected) {
      const auto one = run<Policy, fusing_backend, T, Gelu, Bias>(ctx, way::at_once, bias, rows),
                 two = run<Policy, fusing_backend, T, Gelu, Bias>(ctx, way::apart, bias, rows);
      CHECK(one.forward == expected);
      const double step = sizeof(T) == 2 ? 0x1p-7 : 0x1p-20;
      const auto compare = [step](const std::vector<double>& x, const std::vector<double>& y) {
        REQUIRE(x.size() == y.size());
        double largest = 0;
        for (const double v : y) largest = std::max(largest, std::fabs(v));
        for (std::size_t i = 0; i < x.size(); ++i) CHECK(std::fabs(x[i] - y[i]) <= step * largest);
      };
      compare(one.y, two.y), compare(one.da, two.da), compare(one.db, two.db), compare(one.dbias, two.dbias);
    };
    const calls biased{.with_bias = 1}, active{.with_gelu = 1}, apart{.products = 1, .sums = 1};
    near.template operator()<void, false, dims<heads, head_dim>>({2, 4}, 5, biased);
    near.template operator()<void, true, dims<heads, head_dim>>({2, 4}, 5, active);
    near.template operator()<void, false, dims<head_dim>>({4}, 5, apart);           // of a part of the columns
    near.template operator()<void, true, dims<head_dim, heads>>({4, 2}, 5, apart);  // in another order
    near.template operator()<void, false, dims<seq, heads, head_dim>>({3, 2, 4}, 5, apart);
    near.template operator()<void, true, dims<seq>>({3}, 5, apart);
    near.template operator()<checkpoint_full, true, dims<heads, head_dim>>({2, 4}, 5, biased);  // gelu by itself
  });
}

TEST_CASE("within a checkpointed function gelu is computed apart, so that both runs have the same bits") {
  launch<strategy<mesh<>, fusing_backend>>({}, [](context& ctx) {
    const auto full =
        run<checkpoint_full, fusing_backend, bf16, true, dims<heads, head_dim>>(ctx, way::at_once, {2, 4});
    same_numbers(full,
                 run<keeps_products, fusing_backend, bf16, true, dims<heads, head_dim>>(ctx, way::at_once, {2, 4}));
    CHECK(full.backward.with_bias == 1);
  });
}

TEST_CASE("a bias of other extents is refused, by its dimension's name") {
  launch<strategy<mesh<>, counting_backend>>({}, [](context& ctx) {
    using backend = counting_backend;
    CHECK_THROWS_WITH_AS((run<void, backend, float, false, dims<head_dim>>(ctx, way::at_once, {5})),
                         "dimension head_dim has 4 elements on one side and 5 on the other", failure);
    CHECK_THROWS_WITH_AS((run<void, backend, float, true, dims<seq>>(ctx, way::at_once, {1})),
                         "dimension seq has 3 elements on one side and 1 on the other", failure);
  });
}
