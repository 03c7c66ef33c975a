// Dropout (Srivastava et al. 2014) whose mask is a function of (seed, stream, global index). Invariant: the same
// elements are dropped whatever the sharding, and again when the forward is computed again; nothing is saved for the
// backward.
#pragma once

#include <string_view>

#include <weft/autograd/operate.hpp>
#include <weft/backend/concept.hpp>
#include <weft/core/random.hpp>
#include <weft/core/refusal.hpp>
#include <weft/op/placed.hpp>

namespace weft {
namespace detail {

template <class Backend, class T>
struct dropout_operator {
  struct attributes {
    dropout_mask mask;
    placed_slice at;
  };
  static value forward(const value& x, const attributes& at);
  static void vjp(context& ctx, tape_node& node) {
    const auto at = node.template get<attributes>();
    compute_gradient<Backend, T>(ctx, node, 0, [&](T* dx, bool add) {
      Backend::dropout(ctx.queue<Backend>(), at.mask, at.at, node.output_gradient().template as<const T>(), dx, add);
    });
  }
};

template <class Backend, class T>
value dropout_operator<Backend, T>::forward(const value& x, const attributes& at) {
  return operate_like<T>(
      x,
      {"dropout", vjp, 9.0 * static_cast<double>(x.held().elements()),
       computed_by(at.mask.seed, at.mask.stream, at.mask.rate)},
      {&x},
      [&](const local_array& y) {
        Backend::dropout(x.ctx->queue<Backend>(), at.mask, at.at, x.held().template as<const T>(), y.template as<T>(),
                         false);
      },
      [&](tape_node& node) { node.set(at); });
}

}  // namespace detail

/// The stream of one use of dropout: of a name within the model, at one step (whatever the caller counts). It isn't the
/// stream of a tensor of that name, whose initial values and whose masks would depend on each other.
constexpr std::uint64_t dropout_stream(std::string_view name, std::uint64_t step) {
  constexpr std::string_view before("dropout\0", 8);  // a byte that no tensor's name has
  return stream_of(name, stream_of(before)) ^ (step * 0x9E3779B97F4A7C15u);
}

/// x / (1 - rate) with probability 1 - rate, else 0: element by element, as the context's seed, `stream` and the
/// element's global index say. A rate of 0 returns x. Shape and placement as x, any placement: ranks that hold the same
/// value drop the same of it, a rank with a slice drops its slice's share, and, the mask being given, dropout is
/// linear: pending sums pass, since every addend of an element is dropped or none. What is dropped is multiplied by 0,
/// so infinity and NaN become NaN. When it applies (training, not
/// evaluation) is the caller's to say. Throws unless 0 <= rate < 1. Cost: one read and one write of x, a random word
/// and a product an element, and as much backward.
template <any_tensor X>
X dropout(const X& x, double rate, std::uint64_t stream) {
  static_assert(detail::none<integers_in<X>>,
                "weft: dropout(x, rate, stream) takes floating elements: cast<float>(x) first");
  require(rate >= 0 && rate < 1, "a dropout rate is from 0 to below 1, not ", rate);
  if (rate == 0) return x;
  if constexpr (detail::none<integers_in<X>>) {
    using engine = detail::dropout_operator<typename X::backend, typename X::element_type>;
    return X(engine::forward(untyped(x), {{rate, untyped(x).ctx->seed, stream}, detail::placed(x)}));
  } else
    return x;
}

}  // namespace weft
