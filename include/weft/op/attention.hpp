// Scaled dot-product attention, grouped-query, fused so that seq x seq is never stored (Dao et al. 2022).
// Invariant: the sequence is whole on every rank; heads are sharded alike for queries, keys and values.
#pragma once

#include <weft/core/refusal.hpp>
#include <weft/op/attention_engine.hpp>
#include <weft/op/documents.hpp>
#include <weft/op/pair_rule.hpp>

namespace weft {

namespace detail {

// What q, k and v hold on axis A has to agree: all sharded over batch, or all over heads, or all whole.
template <class Q, class K, class A>
constexpr bool attention_agrees() {
  constexpr on_axis q = state_on<layout_of<Q>, A>, k = state_on<layout_of<K>, A>;
  constexpr int at_q = position_of<dims_of<Q>>(q), at_k = position_of<dims_of<K>>(k);
  return (q.kind == holds::shard) == (k.kind == holds::shard) && at_q == at_k && (at_q < 0 || at_q == 0 || at_q == 2);
}

// And over the same axes, in the same order.
template <class Q, class K>
inline constexpr bool attention_cut_alike =
    []<class B, class S, class H, class W, class B2, class S2, class H2, class W2>(dims<B, S, H, W>,
                                                                                   dims<B2, S2, H2, W2>) {
      return std::same_as<shard_axes<layout_of<Q>, tag_of<B>>, shard_axes<layout_of<K>, tag_of<B2>>> &&
             std::same_as<shard_axes<layout_of<Q>, tag_of<H>>, shard_axes<layout_of<K>, tag_of<H2>>>;
    }(dims_of<Q>{}, dims_of<K>{});

template <class Q, class K, class V, class Axes>
struct attention_rule;
template <class Q, class K, class V, class... As>
struct attention_rule<Q, K, V, tag_list<As...>> {
  static constexpr bool agrees = ((attention_agrees<Q, K, As>() && attention_agrees<Q, V, As>()) && ...) &&
                                 attention_cut_alike<Q, K> && attention_cut_alike<Q, V>;
  template <class A>
  static constexpr auto on() {
    if constexpr (state_on<layout_of<Q>, A>.kind == holds::shard)
      return typename shard_on<layout_of<Q>, A>::type{};
    else if constexpr (state_on<layout_of<Q>, A>.kind == holds::replicate ||
                       state_on<layout_of<K>, A>.kind == holds::replicate ||
                       state_on<layout_of<V>, A>.kind == holds::replicate)
      return replicate<A>{};
    else
      return invariant<A>{};
  }
  using layout = typename insert_all<weft::layout<>, decltype(on<As>())...>::type;
};

// The dimension of k's heads: as it is told, or else kv_heads, or that of the queries.
template <class Told, class Heads, class K>
struct key_heads {
  using type = Told;
};
template <class Heads, class K>
struct key_heads<void, Heads, K> {
  using type = std::conditional_t<dims_of<K>::template has<kv_heads>, kv_heads, Heads>;
};

// The tag of the first dimension.
template <class D>
struct first_tag {
  using type = void;
};
template <class E, class... Es>
struct first_tag<dims<E, Es...>> {
  using type = tag_of<E>;
};

// Starts of documents lie as the queries' sequences do, and are whole where those are.
template <class Q, class Starts, class Batch, class Seq>
constexpr bool documents_agree() {
  if constexpr (tells_documents<Seq, Starts>)
    return std::same_as<typename first_tag<dims_of<Starts>>::type, Batch> &&
           std::same_as<shard_axes<layout_of<Q>, Batch>, shard_axes<layout_of<Starts>, Batch>>;
  else
    return false;
}

template <class D, class Seq, class Heads, class Width>
inline constexpr bool in_attention_order =
    D::ndim == 4 && D::template index<Seq> == 1 && D::template index<Heads> == 2 && D::template index<Width> == 3;

/// attention below; documents may be null.
template <dimension Seq, dimension Heads, dimension Width, dimension Keys, class KvHeads, any_tensor Q, any_tensor K,
          any_tensor V>
auto attention_of(const Q& q, const K& k, const V& v, const value* documents, const attention_options& options,
                  call_site at) {
  using T = typename Q::element_type;
  using key_heads = typename detail::key_heads<KvHeads, Heads, K>::type;
  using q_lacks = lacked<dims_of<Q>, Seq, Heads, Width>;
  using k_lacks = lacked<dims_of<K>, Keys, key_heads, Width>;
  using v_lacks = lacked<dims_of<V>, Keys, key_heads, Width>;
  constexpr bool found = none<q_lacks> && none<k_lacks> && none<v_lacks>;
  static_assert(
      none<q_lacks>,
      "weft: attention(q, k, v) doesn't find its dimensions in q, [batch, seq, heads, head_dim]: name q's own, "
      "attention<seq, heads, head_dim>(q, k, v), or rename<from, to>(q)");
  static_assert(
      !none<q_lacks> || (none<k_lacks> && none<v_lacks>),
      "weft: attention(q, k, v) doesn't find its dimensions in k or v, [batch, seq, kv_heads, head_dim]: name "
      "their own, attention<seq, heads, head_dim, keys, kv_heads>(q, k, v), or rename<from, to>(k)");
  constexpr bool ordered = in_attention_order<dims_of<Q>, Seq, Heads, Width> &&
                           in_attention_order<dims_of<K>, Keys, key_heads, Width> &&
                           in_attention_order<dims_of<V>, Keys, key_heads, Width>;
  static_assert(!found || ordered,
                "weft: attention(q, k, v) takes q as [batch, seq, heads, head_dim], k and v as [batch, seq, kv_heads, "
                "head_dim]: permute<batch, seq, heads, head_dim>(x) brings the four dimensions into this order");
  constexpr bool one_batch = std::same_as<typename first_tag<dims_of<Q>>::type, typename first_tag<dims_of<K>>::type> &&
                             std::same_as<typename first_tag<dims_of<Q>>::type, typename first_tag<dims_of<V>>::type>;
  static_assert(
      !ordered || one_batch,
      "weft: attention(q, k, v) pairs queries with the keys of their own sequence: the first dimension is the "
      "same in all three; rename<from, to>(k) it");
  static_assert(none<integers_in<Q, K, V>>,
                "weft: attention(q, k, v) takes floating elements: cast<float>(x) the integers");
  static_assert(!none<integers_in<Q, K, V>> ||
                    (std::same_as<T, typename K::element_type> && std::same_as<T, typename V::element_type>),
                "weft: attention(q, k, v) takes one element type; cast<T>(x) the others");
  static_assert(none<pending_in<layout_of<Q>>> && none<pending_in<layout_of<K>>> && none<pending_in<layout_of<V>>>,
                "weft: attention of a pending sum is not the sum of the attentions: all_reduce<axis> it first");
  static_assert(ask_backends<Q, K, V>());
  if constexpr (none<backends_in<Q, K, V>> && ordered && one_batch && floating<T> &&
                std::same_as<T, typename K::element_type> && std::same_as<T, typename V::element_type>) {
    using rule = attention_rule<Q, K, V, axes_of_all<layout_of<Q>, layout_of<K>, layout_of<V>>>;
    static_assert(
        rule::agrees,
        "weft: attention needs batch or heads sharded alike for queries, keys and values, and the sequence whole: "
        "all_gather<axis> the sequence or all_to_all<heads, axis> it");
    if constexpr (rule::agrees) {
      using result = basic_tensor<T, dims_of<Q>, typename rule::layout, typename Q::backend>;
      return result(attention_operator<typename Q::backend, T>::forward(
          promoted<typename rule::layout>(q, "attention", at), promoted<typename rule::layout>(k, "attention", at),
          promoted<typename rule::layout>(v, "attention", at), documents, options));
    }
  }
}

}  // namespace detail

/// softmax(q k^T * scale) v. Shape: q [batch, Seq, Heads, Width]; k, v [batch, Keys, KvHeads, Width]; out as q. The
/// dimensions are found by their tags, in this order, and permute<...> brings them into it; the first, of any tag, is
/// the same in all three. KvHeads: kv_heads where k has it, else Heads. heads is a multiple of kv_heads, head h attends
/// with kv head h / (heads / kv_heads). Causal: query i sees keys j <= i + keys - seq, with a window the last of them;
/// where it sees none, having more queries than keys, the output is 0. Keys and values that no query sees have to be
/// finite all the same.
/// Placement: batch or heads sharded alike on all three, the rest whole. Cost: 4 * batch * heads * seq * keys *
/// head_dim operations forward (half of it if causal), 2.5 times that backward. Throws weft::failure when heads is no
/// multiple of kv_heads, or sizes don't agree. Source: Vaswani et al. 2017; groups of heads: Ainslie et al. 2023;
/// computed in blocks, without the matrix of scores: Dao et al. 2022.
template <dimension Seq = seq, dimension Heads = heads, dimension Width = head_dim, dimension Keys = Seq,
          class KvHeads = void, any_tensor Q, any_tensor K, any_tensor V>
auto attention(const Q& q, const K& k, const V& v, attention_options options = {}, call_site at = call_site::here()) {
  return detail::attention_of<Seq, Heads, Width, Keys, KvHeads>(q, k, v, nullptr, options, at);
}
/// The same of sequences that hold documents one behind the other: a query sees no key before starts[batch, Seq], the
/// position at which its document begins (document_starts makes them of tokens). Causal, and q has the keys' own
/// positions; no cache. What a backend's kernels skip, isn't computed. Placement of starts: batch sharded as q's, the
/// sequence whole.
template <dimension Seq = seq, dimension Heads = heads, dimension Width = head_dim, dimension Keys = Seq,
          class KvHeads = void, any_tensor Q, any_tensor K, any_tensor V, any_tensor Starts>
auto attention(const Q& q, const K& k, const V& v, const Starts& starts, attention_options options = {},
               call_site at = call_site::here()) {
  constexpr bool told = detail::tells_documents<Seq, Starts>;
  static_assert(told,
                "weft: attention(q, k, v, starts, {...}) takes a fourth tensor that says where documents begin, int32 "
                "[batch, seq], the sequence whole: document_starts(tokens, end) makes it");
  constexpr bool agree = detail::documents_agree<Q, Starts, typename detail::first_tag<dims_of<Q>>::type, Seq>();
  static_assert(!told || agree,
                "weft: attention(q, k, v, starts, {...}) takes starts of the sequences that q is of: of the same first "
                "dimension, sharded over the same axes");
  static_assert(detail::ask_backends<Q, Starts>());
  if constexpr (agree && detail::none<backends_in<Q, Starts>>) {
    detail::compare_operand<layout_of<Q>>(starts, "attention", at);
    return detail::attention_of<Seq, Heads, Width, Keys, KvHeads>(q, k, v, &untyped(starts), options, at);
  }
}

}  // namespace weft
