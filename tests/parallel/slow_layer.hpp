// A layer that takes a known time forward, for the gradients of activations and for those of weights, on the ranks'
// virtual clocks (paced<..., virtual_clock>). Invariant: a rank is one thread, and has its own list of what it did.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include <weft/comm/paced.hpp>
#include <weft/weft.hpp>

namespace weft_test {

using namespace weft;

// Milliseconds that a layer takes for one micro-batch.
struct durations {
  double forward, inputs, weights;
};
inline durations each_layer_takes;
// Bytes that it keeps of a micro-batch from its forward to the end of its backward.
inline std::int64_t each_layer_keeps = 0;

struct work {
  std::int64_t begin, end;
};
inline thread_local std::vector<work> done;

inline void compute(double milliseconds) {
  const std::int64_t begin = virtual_clock::now();
  virtual_clock::advance(std::chrono::nanoseconds(static_cast<std::int64_t>(1e6 * milliseconds)));
  done.push_back({begin, virtual_clock::now()});
}

// x as it is, after a while; so are its gradient and that of w, which is zero.
inline void carry_back(context& ctx, tape_node& node) {
  if (node.input(0)) {
    compute(each_layer_takes.inputs);
    detail::contribute<cpu_backend, float>(ctx, node, 0, node.output_gradient());
  }
  if (node.input(1)) {
    compute(each_layer_takes.weights);
    detail::compute_gradient<cpu_backend, float>(ctx, node, 1, [](float* to, bool add) {
      if (!add) std::fill_n(to, 8, 0.f);
    });
  }
}
template <any_tensor X, any_tensor W>
X slowly(const X& x, const W& w) {
  compute(each_layer_takes.forward);
  value y{untyped(x).ctx, untyped(x).whole, untyped(x).data, {}};
  tape_node* const node = detail::record("slowly", y, carry_back, x, w);
  if (node && each_layer_keeps > 0) node->save(y.ctx->make(dtype::u8, {1, {each_layer_keeps}}));
  return X(y);
}

}  // namespace weft_test
