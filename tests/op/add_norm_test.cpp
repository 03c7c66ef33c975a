// Norms with residual are the sum and the norm by themselves, to the bit, whatever is computed again for the backward:
// what comes out, every gradient, how long the tape is and what it keeps; but for one pass over memory.
#include <optional>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;

struct passes {
  int both = 0, norms = 0, sums = 0, copies = 0;
  friend bool operator==(const passes&, const passes&) = default;
};
thread_local passes counted;

struct counting_backend : cpu_backend {
  template <class... Args>
  static void add_rms_norm(Args&&... args) {
    ++counted.both;
    cpu_backend::add_rms_norm(std::forward<Args>(args)...);
  }
  template <class... Args>
  static void add_layer_norm(Args&&... args) {
    ++counted.both;
    cpu_backend::add_layer_norm(std::forward<Args>(args)...);
  }
  template <class... Args>
  static void rms_norm(Args&&... args) {
    ++counted.norms;
    cpu_backend::rms_norm(std::forward<Args>(args)...);
  }
  template <class... Args>
  static void layer_norm(Args&&... args) {
    ++counted.norms;
    cpu_backend::layer_norm(std::forward<Args>(args)...);
  }
  using cpu_backend::apply;
  template <class... Args>
  static void apply(queue& q, const binary& f, const Args&... args) {
    counted.sums += f == binary::add;
    cpu_backend::apply(q, f, args...);
  }
  static void copy_bytes(queue& q, const void* from, void* to, std::int64_t bytes) {
    ++counted.copies;
    cpu_backend::copy_bytes(q, from, to, bytes);
  }
};

template <class T>
using rows = basic_tensor<T, dims<batch, hidden>, place<>, counting_backend>;
template <class T>
using row = basic_tensor<T, dims<hidden>, place<>, counting_backend>;

// A layer whose blocks are functions: the first one's output is added to x, the second one's to that.
template <bool Fused, bool Centred, class T>
auto layer(const rows<T>& x, const row<T>& w, const row<T>& b) {
  const auto normed = [&](const auto& h) {
    if constexpr (Centred)
      return layer_norm(h, w, b, 1e-3);
    else
      return rms_norm(h, w, 1e-3);
  };
  const auto both = [&](const auto& r) {
    if constexpr (!Fused) {
      auto h = x + r;
      auto y = normed(h);
      return std::tuple(std::move(h), std::move(y));
    } else if constexpr (Centred) {
      return add_layer_norm(x, r, w, b, 1e-3);
    } else {
      return add_rms_norm(x, r, w, 1e-3);
    }
  };
  const auto [h, y] = both(silu(normed(x)));
  return h + tanh(y);
}

struct outcome {
  std::vector<double> y, dx, dw, db;
  std::size_t entries = 0, kept = 0;
  passes forward, backward;
};
template <bool Fused, bool Centred, class T, class Policy>
outcome run(context& ctx) {
  outcome out;
  auto x = normal<rows<T>>(ctx, "x", {5, 37}).requires_grad();
  auto w = normal<row<T>>(ctx, "w", {37}).requires_grad(), b = normal<row<T>>(ctx, "b", {37}).requires_grad();
  tape recorded;
  const recording on(ctx, &recorded);
  counted = {};
  const auto before = ctx.memory.ledger().current[std::size_t(memory::activations)];
  const auto apply = [=](const rows<T>& in) { return layer<Fused, Centred, T>(in, w, b); };
  const auto y = [&] {
    if constexpr (std::same_as<Policy, void>)
      return apply(scale(x, 2.0));
    else
      return checkpoint<Policy>(apply, scale(x, 2.0));
  }();
  out.forward = std::exchange(counted, {});
  out.entries = recorded.size();
  out.kept = ctx.memory.ledger().current[std::size_t(memory::activations)] - before;
  out.y = on_host(cast<double>(detach(y)));
  counted = {};
  backward(sum(y * y));
  out.backward = counted;
  out.dx = on_host(cast<double>(x.grad())), out.dw = on_host(cast<double>(w.grad()));
  if (Centred) out.db = on_host(cast<double>(b.grad()));
  return out;
}

template <bool Centred, class T, class Policy>
void same_bits(context& ctx, const passes& forward, const passes& backward) {
  const outcome two = run<false, Centred, T, Policy>(ctx), one = run<true, Centred, T, Policy>(ctx);
  CHECK(one.y == two.y);
  CHECK(one.dx == two.dx);
  CHECK(one.dw == two.dw);
  CHECK(one.db == two.db);
  CHECK(one.entries == two.entries);
  CHECK(one.kept == two.kept);
  CHECK(one.forward == forward);
  CHECK(one.backward == backward);
  CHECK(two.forward.sums == 2);  // so that the counts see the two
}

struct keeps_sums {
  static constexpr std::string_view name = "sums";
  static constexpr bool recomputes = true;
  static bool keeps(const op_cost& c) { return c.name == "operator+"; }
};
struct keeps_norms {
  static constexpr std::string_view name = "norms";
  static constexpr bool recomputes = true;
  static bool keeps(const op_cost& c) { return c.name == "rms_norm" || c.name == "layer_norm"; }
};
}  // namespace

TEST_CASE_TEMPLATE("a norm with residual is the sum and the norm, to the bit", T, double, float, bf16, fp16) {
  launch<strategy<mesh<>, counting_backend>>({}, [](context& ctx) {
    // The sum of the two blocks and the first norm are by themselves. Backward, the gradient of h goes to x and r as it
    // is.
    const passes once{.both = 1, .norms = 1, .sums = 1}, nothing{};
    same_bits<false, T, void>(ctx, once, nothing);
    same_bits<true, T, void>(ctx, once, nothing);
    if constexpr (sizeof(T) != 4) return;
    const passes again{.both = 1, .norms = 1};
    same_bits<false, T, checkpoint_full>(ctx, once, again);
    same_bits<true, T, checkpoint_full>(ctx, once, again);
    same_bits<false, T, checkpoint_selective>(ctx, once, again);
    same_bits<false, T, keeps_sums>(ctx, once, {.norms = 2});  // of the sum that is there
    same_bits<true, T, keeps_sums>(ctx, once, {.norms = 2});
    same_bits<false, T, keeps_norms>(ctx, once, {.sums = 1});  // which the norm's backward reads
    same_bits<true, T, keeps_norms>(ctx, once, {.sums = 1});
  });
}

TEST_CASE("a norm with residual refuses what the two do, by name") {
  launch<strategy<mesh<>, counting_backend>>({}, [](context& ctx) {
    const auto x = ones<rows<float>>(ctx, {3, 4}), r = ones<rows<float>>(ctx, {2, 4});
    const auto w = ones<row<float>>(ctx, {4});
    CHECK_THROWS_WITH_AS(add_rms_norm(x, r, w), "dimension batch has 3 elements on one side and 2 on the other",
                         failure);
    CHECK_THROWS_WITH_AS(add_rms_norm(x, x, ones<row<float>>(ctx, {5})),
                         "dimension hidden has 4 elements on one side and 5 on the other", failure);
    CHECK_THROWS_WITH_AS(add_rms_norm(x, x, w, -1), doctest::Contains("add_rms_norm: eps is -1"), failure);
    CHECK_THROWS_WITH_AS(add_layer_norm(x, x, w, w, NAN), doctest::Contains("add_layer_norm: eps is"), failure);
  });
}
