// A projection: the one seam for what a model's blocks multiply by. Invariant: the strategy's projections policy
// decides what it is made of; its input's and output's placements are the same under each.
#pragma once

#include <cmath>
#include <string>

#include <weft/backend/kernels.hpp>
#include <weft/nn/parameters.hpp>
#include <weft/nn/training_dropout.hpp>
#include <weft/nn/weight.hpp>
#include <weft/op/arithmetic.hpp>
#include <weft/op/contract.hpp>
#include <weft/op/contract_float8.hpp>
#include <weft/op/convert.hpp>
#include <weft/op/elementwise.hpp>

namespace weft {

/// The inner width of an adapter.
struct adapter_rank : dim_tag {
  static constexpr std::string_view name = "adapter_rank";
};

namespace detail {

template <class A, class B>
struct both_dims;
template <class... As, class... Bs>
struct both_dims<dims<As...>, dims<Bs...>> {
  using type = dims<As..., Bs...>;
};
template <class A, class B>
using dims_of_both = typename both_dims<A, B>::type;

template <class D, class Dims>
inline constexpr bool is_dim_of = false;
template <class D, class... Es>
inline constexpr bool is_dim_of<D, dims<Es...>> = (std::same_as<D, tag_of<Es>> || ...);

/// Whether projections P are stored in few bits.
template <class P>
inline constexpr bool in_few_bits = false;
template <class P>
requires requires { P::stored_as; }
inline constexpr bool in_few_bits<P> = P::stored_as != weight_format::plain;

template <class... Is>
struct over {
  template <any_tensor X, any_tensor W>
  static auto contracted(const X& x, const W& w, call_site at) {
    return contract<Is...>(x, w, at);
  }
  template <any_tensor X, any_tensor W>
  static auto contracted_float8(const X& x, const W& w, call_site at) {
    return contract_float8<Is...>(x, w, at);
  }
  template <any_tensor X, any_tensor W, any_tensor B>
  static auto biased(const X& x, const W& w, const B& bias, call_site at) {
    return contract<Is...>(x, w, bias, at);
  }
  template <any_tensor X, any_tensor W, any_tensor B>
  static auto biased_gelu(const X& x, const W& w, const B& bias, call_site at) {
    return contract_gelu<Is...>(x, w, bias, at);
  }
};
template <class Dims>
struct over_dims;
template <class... Es>
struct over_dims<dims<Es...>> : over<tag_of<Es>...> {};

struct no_adapter {};
struct no_dropout {};
// Its two factors. Where `in` is sharded, so is the first, whose output's pending sum is then scattered along its
// width; where `out` is, so is the second.
template <class S, class Out, class In, class Cut, class Axis, bool Row = is_dim_of<Cut, In>>
struct adapter {
  weight<S, dims_of_both<dims<adapter_rank>, In>, shard<Cut, Axis>> a;
  weight<S, dims_of_both<Out, dims<adapter_rank>>, shard<adapter_rank, Axis>> b;

  template <any_tensor X>
  auto inner(const X& x, call_site at) const {
    return reduce_scatter<adapter_rank, Axis>(over_dims<In>::contracted(x, a, at), at);
  }
};
template <class S, class Out, class In, class Cut, class Axis>
struct adapter<S, Out, In, Cut, Axis, false> {
  weft::norm_weight<S, dims_of_both<dims<adapter_rank>, In>> a;
  weight<S, dims_of_both<Out, dims<adapter_rank>>, shard<Cut, Axis>> b;

  template <any_tensor X>
  auto inner(const X& x, call_site at) const {
    return over_dims<In>::contracted(x, a, at);
  }
};

}  // namespace detail

/// x [..., In] -> [..., Out], by a weight [Out, In] sharded along `Cut`, one of its dimensions, over `Axis`: `linear<S,
/// dims<heads, head_dim>, dims<hidden>, heads>`; Biased: with a bias [Out], which a Cut in Out has to shard. Placement:
/// with a Cut in Out, x whole on Axis and the output sharded as Cut; with one in In, x sharded as Cut and the output
/// partial over Axis.
template <class S, class Out, class In, class Cut, bool Biased = false, class Axis = tp>
struct linear {
  using projections = typename S::projections;
  static constexpr bool adapts = projections::adapts;
  static constexpr double drops = adapts ? detail::adapter_dropout<projections>() : 0;  // of the adapter's input

  static constexpr bool in_few_bits = detail::in_few_bits<projections>;
  static constexpr bool in_float8 = detail::in_float8<projections>();
  static constexpr bool readable =
      !in_few_bits || dequantise_kernel<typename S::backend, typename S::precision::compute>;
  static_assert(
      readable,
      "weft: the strategy stores projections in few bits, and its backend has no kernel that makes numbers of "
      "them: give it dequantise(queue, slice, y) for the compute type (dequantise_kernel), or leave int8 and "
      "nf4 out");
  static_assert(!Biased || detail::is_dim_of<Cut, Out>,
                "weft: behind a pending sum each rank would add the bias: add it after the sum, once");

  weft::weight<S, detail::dims_of_both<Out, In>, shard<Cut, Axis>> weight;
  [[no_unique_address]] std::conditional_t<Biased, weft::weight<S, Out, shard<Cut, Axis>>, detail::no_adapter> bias;
  [[no_unique_address]] std::conditional_t<adapts, detail::adapter<S, Out, In, Cut, Axis>, detail::no_adapter> beside;
  [[no_unique_address]] std::conditional_t<(drops > 0), std::string, detail::no_dropout> place;  // of its dropout

  template <any_tensor X>
  auto operator()(const X& x, call_site at = call_site::here()) const {
    if constexpr (joins_bias)
      if (adds_bias_alone()) return detail::over_dims<In>::biased(x, weight, bias, at);
    auto y = multiplied(x, at);
    if constexpr (adapts)
      if (adapts_now()) y = y + contract<adapter_rank>(beside.inner(seen(x), at) * projections::scale, beside.b, at);
    if constexpr (Biased)
      if (has_bias()) y = y + bias;
    return y;
  }
  /// gelu of that, computed with it where the backend can: see contract_gelu.
  template <any_tensor X>
  auto with_gelu(const X& x, call_site at = call_site::here()) const {
    if constexpr (joins_bias)
      if (adds_bias_alone()) return detail::over_dims<In>::biased_gelu(x, weight, bias, at);
    return gelu((*this)(x, at));
  }

  /// Registers the weight as `name`, of the global extents of Out and In, born normal with this deviation; and where it
  /// has an adapter its factors as name + ".lora_a" and ".lora_b".
  void add_to(parameter_registry& registry, context& ctx, const std::string& name, const shape& out, const shape& in,
              double stddev) {
    parameter_record& record = registry.add(ctx, weight, name, both(out, in), {stddev});
    if constexpr (in_few_bits && readable)
      record.stored = {projections::stored_as, in.elements(),
                       [](context& c, const quantised_slice& q, const local_array& to) {
                         using T = typename S::precision::compute;
                         S::backend::dequantise(c.queue<typename S::backend>(), q, to.as<T>());
                       }};
    if constexpr (adapts) {
      if (!detail::has_adapter<projections>(name)) return;
      if constexpr (drops > 0) place = name + ".lora_dropout";
      constexpr std::int64_t rank = projections::rank;
      registry
          .add(ctx, beside.a, name + ".lora_a", both({1, {rank}}, in),
               {1 / std::sqrt(3.0 * static_cast<double>(in.elements()))})
          .adapter = true;
      registry.add(ctx, beside.b, name + ".lora_b", both(out, {1, {rank}}), {}).adapter = true;
    }
  }
  /// Registers a bias, of the global extents of Out, born zero. It doesn't decay.
  void add_bias_to(parameter_registry& registry, context& ctx, const std::string& name, const shape& out) {
    static_assert(Biased, "weft: this linear has no bias: linear<S, Out, In, Cut, true> has one");
    if constexpr (Biased) registry.add(ctx, bias, name, out, {}).decays = false;
  }

 private:
  // Whether a bias may be part of the product; and whether it is, there being nothing between them.
  static constexpr bool joins_bias = Biased && !in_float8;
  bool adds_bias_alone() const { return has_bias() && !adapts_now(); }
  template <any_tensor X>
  auto multiplied(const X& x, call_site at) const {
    if constexpr (in_float8)
      return detail::over_dims<In>::contracted_float8(x, weight, at);
    else
      return detail::over_dims<In>::contracted(x, weight, at);
  }
  // What the adapter reads of x.
  template <any_tensor X>
  decltype(auto) seen(const X& x) const {
    if constexpr (drops > 0)
      return training_dropout(x, drops, place);
    else
      return (x);
  }
  bool has_bias() const { return bool(untyped(bias).slot); }  // where it was registered
  // Whether an adapter is added: one was registered, and the weight doesn't have it yet.
  bool adapts_now() const {
    if constexpr (adapts) {
      if (!untyped(beside.a).slot) return false;
      const ref<weight_place>& of = untyped(beside.a).slot->live;  // none: it was assigned to, which the next step says
      return !(of && of->merged);
    } else {
      return false;
    }
  }
  static shape both(shape first, const shape& second) {
    for (int d = 0; d < second.ndim; ++d) first.push_back(second[d]);
    return first;
  }
};

}  // namespace weft
