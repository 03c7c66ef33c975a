// The projections policy: what a model's blocks multiply by. Invariant: a policy only decides; nn/linear.hpp and
// nn/query_key_value.hpp compute.
#pragma once

#include <ratio>
#include <string_view>
#include <type_traits>

#include <weft/core/dtype.hpp>

namespace weft {

/// `adapts`: whether each projection has an adapter beside its weight, which is then frozen, as is all else but the
/// adapters. Where it has, `rank` is the adapter's inner width, and `scale` multiplies what it adds; where it has
/// `dropout` as well, a double from 0 to below 1, so much of an adapter's input is dropped in training; where it has
/// `target_modules`, an array of std::string_view, weights that are called so or end so behind a dot have one ("query":
/// "layers.0.query"); where it has `adapts_weight(name)`, that says it of a weight's name. `fuses_qkv`:
/// whether queries, keys and values are one projection with one weight. Where it has `stored_as`, a weight_format, that
/// is how weights lie, which are frozen then. Where it has
/// `in_float8`, a bool that is true, weights and what they multiply are rounded to 8 bits in each product. Where it has
/// `shares_kv`, a bool that is true, ranks along tp share the
/// work of every key and value head, so that there may be fewer heads than ranks.
template <class P>
concept projections_policy = requires {
  {bool(P::adapts)};
  {bool(P::fuses_qkv)};
  {std::string_view(P::name)};
};

namespace detail {
/// The rate of dropout before an adapter.
template <projections_policy P>
constexpr double adapter_dropout() {
  if constexpr (requires { P::dropout; })
    return double(P::dropout);
  else
    return 0;
}
/// Whether a name is one of the targets, or ends in "." and one, as peft reads a list of target_modules.
template <class Targets>
constexpr bool is_targeted(const Targets& targets, std::string_view name) {
  for (const std::string_view target : targets)
    if (name.ends_with(target) && (name.size() == target.size() || name[name.size() - target.size() - 1] == '.'))
      return true;
  return false;
}
/// Whether P, which adapts, has an adapter beside the weight of this name.
template <projections_policy P>
bool has_adapter(std::string_view name) {
  constexpr bool asked = requires { P::adapts_weight(name); }
  , listed = requires { P::target_modules; };
  static_assert(!asked || !listed,
                "weft: a projections policy names the weights with adapters by target_modules or by "
                "adapts_weight(name), not by both");
  if constexpr (asked)
    return P::adapts_weight(name);
  else if constexpr (listed)
    return is_targeted(P::target_modules, name);
  else
    return true;
}
/// Whether projections multiply in 8 bits.
template <projections_policy P>
constexpr bool in_float8() {
  if constexpr (requires { P::in_float8; })
    return bool(P::in_float8);
  else
    return false;
}
/// Whether each rank along tp computes a part of every key and value head.
template <projections_policy P>
constexpr bool shares_kv() {
  if constexpr (requires { P::shares_kv; })
    return bool(P::shares_kv);
  else
    return false;
}
}  // namespace detail

/// A weight, and nothing beside it.
struct dense {
  static constexpr std::string_view name = "dense";
  static constexpr bool adapts = false, fuses_qkv = false;
};

/// LoRA (Hu et al. 2021): y = W x + Alpha / Rank * B (A x), with W frozen. A is born normal, B zero, so that training
/// begins where W stands. Dropout, a std::ratio: in training the adapter's x is dropped at this rate, element by
/// element and for each projection by itself: `lora<16, 32, std::ratio<5, 100>>`.
template <int Rank, int Alpha = 2 * Rank, class Dropout = std::ratio<0>>
struct lora {
  static_assert(Rank >= 1 && Alpha != 0,
                "weft: lora<rank, alpha> has a rank of at least 1 and an alpha other than 0: lora<16>");
  static_assert(Dropout::num >= 0 && Dropout::num < Dropout::den,
                "weft: lora<rank, alpha, dropout> has a rate of dropout from 0 to below 1: std::ratio<5, 100>");
  static constexpr std::string_view name = "lora";
  static constexpr bool adapts = true, fuses_qkv = false;
  static constexpr int rank = Rank;
  static constexpr double scale = double(Alpha) / Rank;
  static constexpr double dropout = double(Dropout::num) / double(Dropout::den);
};

namespace detail {
template <class Form>
constexpr bool takes_form() {
  static_assert(projections_policy<Form>,
                "weft: int8<form>, nf4<form>, float8<form>, fused_qkv<form> and shared_kv<form> take a projections "
                "policy, as int8<lora<16>>, and a strategy the others beside it: strategy<mesh<dp>, bf16_mixed, "
                "int8<>>");
  return projections_policy<Form>;
}
/// What a policy that is given another as Form begins from.
template <class Form>
using form_of = std::conditional_t<takes_form<Form>(), Form, dense>;
}  // namespace detail

/// As Form, with weights that are frozen and stored in 8 bits: `int8<lora<16>>`; `int8<>` for models that aren't
/// trained.
template <class Form = dense>
struct int8 : detail::form_of<Form> {
  static constexpr std::string_view name = "int8";
  static constexpr auto stored_as = weight_format::int8;
};
/// The same in 4 bits. Source: QLoRA (Dettmers et al. 2023), which is `nf4<lora<16>>`.
template <class Form = dense>
struct nf4 : detail::form_of<Form> {
  static constexpr std::string_view name = "nf4";
  static constexpr auto stored_as = weight_format::nf4;
};

/// As Form, with weights and what they multiply rounded to 8 bits in each product, and gradients too: contract_float8
/// in place of contract. `float8<>`, `float8<fused_qkv<>>`, `float8<lora<16>>`, whose adapters multiply as ever.
/// Weights stay in the compute type, master weights and moments in theirs.
template <class Form = dense>
struct float8 : detail::form_of<Form> {
  static constexpr std::string_view name = "float8";
  static constexpr bool in_float8 = true;
};

/// As Form, with queries, keys and values by one contraction: `fused_qkv<>`, `fused_qkv<lora<16>>`.
template <class Form = dense>
struct fused_qkv : detail::form_of<Form> {
  static constexpr std::string_view name = "fused_qkv";
  static constexpr bool fuses_qkv = true;
};

/// As Form, for models with fewer key and value heads than tp has ranks: a rank computes its part of every head's
/// width, and is sent those heads whole that its queries read. `shared_kv<>`, `shared_kv<lora<16>>`.
template <class Form = dense>
struct shared_kv : detail::form_of<Form> {
  static constexpr std::string_view name = "shared_kv";
  static constexpr bool shares_kv = true;
};

}  // namespace weft
