// The precision policy: which types numbers have in computing, in gradients, between ranks and in the optimizer.
// Invariant: only types are decided here; nothing is computed.
#pragma once

#include <concepts>
#include <string_view>

#include <weft/core/dtype.hpp>

namespace weft {

/// compute: activations and the weights that operators see. gradient: what a parameter's gradient accumulates in.
/// reduce: what gradients travel between ranks in. master: the optimizer's copy of the weights and its moments; double
/// where compute and gradient are, else float: a strategy refuses another. moment, which may be left out: what the
/// moments are kept in, master, or bf16 where master is float: rounded stochastically then.
template <class P>
concept precision_policy = requires {
  typename P::compute;
  typename P::gradient;
  typename P::reduce;
  typename P::master;
  {std::string_view(P::name)};
}
&&floating<typename P::compute>&& floating<typename P::gradient>&& floating<typename P::reduce>&&
    floating<typename P::master>;

namespace detail {
template <class P>
struct moment_type {
  using type = typename P::master;
};
template <class P>
requires requires { typename P::moment; }
struct moment_type<P> {
  using type = typename P::moment;
};
/// What a precision's moments are kept in: P::moment, or P::master.
template <class P>
using moment_of = typename moment_type<P>::type;
/// Whether they are rounded stochastically.
template <class P>
inline constexpr bool rounds_moments = !std::same_as<moment_of<P>, typename P::master>;
template <class P>
inline constexpr bool can_keep_moments =
    !rounds_moments<P> || (std::same_as<moment_of<P>, bf16> && std::same_as<typename P::master, float>);

/// Whether the optimizer can compute with these types: its own is that of sums over the weights' and the gradients'.
template <precision_policy P>
inline constexpr bool can_train = std::same_as<typename P::master, accumulate_t<typename P::compute>>&&
    std::same_as<typename P::master, accumulate_t<typename P::gradient>>;
}  // namespace detail

struct fp32 {
  static constexpr std::string_view name = "fp32";
  using compute = float;
  using gradient = float;
  using reduce = float;
  using master = float;
};

/// bf16 compute with fp32 main gradients, fp32 reduction and fp32 master weights (Micikevicius et al. 2018, with bf16).
struct bf16_mixed {
  static constexpr std::string_view name = "bf16";
  using compute = bf16;
  using gradient = float;
  using reduce = float;
  using master = float;
};

/// bf16_mixed with AdamW's two moments in bf16, rounded stochastically (Zamirai et al. 2020): 4 bytes a parameter less.
struct bf16_moments {
  static constexpr std::string_view name = "bf16_moments";
  using compute = bf16;
  using gradient = float;
  using reduce = float;
  using master = float;
  using moment = bf16;
};

/// fp16 compute with fp32 main gradients and master weights, and dynamic loss scaling (Micikevicius et al. 2018):
/// gradients below 6e-8 would vanish in fp16 without it.
struct fp16_mixed {
  static constexpr std::string_view name = "fp16";
  using compute = fp16;
  using gradient = float;
  using reduce = float;
  using master = float;
  static constexpr double initial_loss_scale = 1024;  // of a sum over tokens, not of their mean
};

/// What a precision's loss is multiplied by at first: P::initial_loss_scale, or 0 for no scaling.
template <class P>
inline constexpr double initial_loss_scale = 0;
template <class P>
requires requires { double(P::initial_loss_scale); }
inline constexpr double initial_loss_scale<P> = [] {
  constexpr double scale = P::initial_loss_scale;
  static_assert(
      scale >= 0x1p-24 && scale <= 0x1p24,
      "weft: a precision's initial_loss_scale is a number from 2^-24 to 2^24; leave it out where nothing is scaled");
  return scale;
}();

/// double everywhere: for checks against finite differences and other exact comparisons.
struct fp64 {
  static constexpr std::string_view name = "fp64";
  using compute = double;
  using gradient = double;
  using reduce = double;
  using master = double;
};

}  // namespace weft
