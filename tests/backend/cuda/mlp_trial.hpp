// The MLP block of nn/mlp.hpp, forward and backward, on the backend that a strategy names; and how two such runs
// compare.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/comm/threads.hpp>
#include <weft/nn/mlp.hpp>
#include <weft/op/create.hpp>
#include <weft/op/rms_norm.hpp>
#include <weft/op/to_host.hpp>
#include <weft/parallel/launch.hpp>

namespace weft_test {

struct mlp_sizes {
  std::int64_t batch, seq, hidden, ffn;
};
using mlp_outcome = std::map<std::string, std::vector<double>>;

template <class Backend>
std::vector<double> doubles_of(weft::context& ctx, const weft::local_array& a) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(a.bytes()));
  Backend::download(ctx.queue<Backend>(), a.data, bytes.data(), a.bytes());
  return weft::visit_dtype(a.type, [&]<class T>() {
    const T* at = reinterpret_cast<const T*>(bytes.data());
    return std::vector<double>(at, at + a.elements());
  });
}

/// y and every gradient of down(swiglu(gate(n), up(n))), n = rms_norm(x), dy being given. Weights gather their
/// gradients in the precision's gradient type, and do so twice, so that the second adds to the first.
template <class S>
mlp_outcome run_mlp(const mlp_sizes& size) {
  using namespace weft;
  using backend = typename S::backend;
  using compute = typename S::precision::compute;
  using activations = basic_tensor<compute, dims<batch, seq, hidden>, place<shard<batch, dp>>, backend>;
  mlp_outcome out;
  launch<S>({}, [&](context& ctx) {
    mlp<S> block;
    weight<S, dims<hidden>> norm;
    parameter_registry registry;
    registry.begin_unit("block");
    registry.add(ctx, norm, "norm", {1, {size.hidden}}, {0.2});
    block.add_to(registry, ctx, "", size.hidden, size.ffn, 0.3, 0.2);
    auto& parameters = registry.units()[0].parameters;
    for (parameter_record& p : parameters) {
      using flat = basic_tensor<compute, dims<hidden>, layout<>, backend>;
      p.live->at = untyped(normal<flat>(ctx, p.name, {p.local.elements()}, p.init.stddev)).data.reshaped(p.local);
      detail::keep_gradient_in<backend, typename S::precision::gradient, compute>(*p.slot);
      p.slot->gradient = ctx.make(p.slot->type, p.local, memory::gradients);
    }
    activations x = normal<activations>(ctx, "x", {size.batch, size.seq, size.hidden});
    x.requires_grad();
    for (int pass = 0; pass < 2; ++pass) {
      auto y = block(rms_norm(x, norm));
      untyped(y).slot->gradient =
          untyped(normal<activations>(ctx, pass ? "dy again" : "dy", {size.batch, size.seq, size.hidden})).data;
      untyped(y).slot->has_gradient = true;
      out["y"] = doubles_of<backend>(ctx, untyped(y).data);
      ctx.tape->backward(ctx);
    }
    out["dx"] = doubles_of<backend>(ctx, untyped(x.grad()).data);
    for (const parameter_record& p : parameters) {
      CHECK(p.slot->has_gradient);
      out["d" + p.name] = doubles_of<backend>(ctx, p.slot->gradient);
    }
  });
  return out;
}

/// Every number of `got` within tolerance * the largest of `want`'s array.
inline void check_same_outcome(const mlp_outcome& got, const mlp_outcome& want, double tolerance) {
  REQUIRE(want.size() == 6);  // y, dx, and the gradients of norm, gate, up, down
  REQUIRE(got.size() == want.size());
  for (const auto& entry : want) {
    const std::string& name = entry.first;
    const std::vector<double>& numbers = entry.second;
    INFO(name);
    const std::vector<double>& mine = got.at(name);
    REQUIRE(mine.size() == numbers.size());
    double largest = 0, worst = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      largest = std::fmax(largest, std::fabs(numbers[i]));
      worst = std::isfinite(mine[i]) ? std::fmax(worst, std::fabs(mine[i] - numbers[i])) : INFINITY;
      if (worst == INFINITY) break;
    }
    CHECK(largest > 0.01);  // there is something to compare
    CHECK(worst <= tolerance * largest);
  }
}

/// fp32: the outputs are chains of three sums of at most a few hundred products in different orders, each within some
/// 2^-24 * sqrt(count) of its magnitude. bf16: intermediate values are rounded to 2^-8 (relative), and a value close to
/// the middle of two neighbours may round to either; through a chain of four roundings.
template <class S>
constexpr double mlp_tolerance() {
  if (weft::dtype_of<typename S::precision::compute> == weft::dtype::f32) return 0x1p-18;
  return 0x1p-6;
}

}  // namespace weft_test
