// Queries, keys and values of a stream: three projections, or one whose weight has all three; keys and values computed
// by whole heads or, where tp has more ranks than there are, by parts of all. Invariant: all compute the same from the
// same numbers, and a group of queries lies on the rank of its key and value.
#pragma once

#include <numeric>
#include <tuple>

#include <weft/nn/linear.hpp>
#include <weft/op/merge.hpp>
#include <weft/op/repeat.hpp>

namespace weft {

/// What a fused projection has for each key head: the queries of its group, then its key, then its value.
struct qkv_lanes : dim_tag {
  static constexpr std::string_view name = "qkv_lanes";
  static constexpr auto matrix_role = weft::matrix_role::stacked;
};

/// x [batch, seq, hidden], whole on tp -> queries [batch, seq, heads/tp, head_dim], keys and values [batch, seq,
/// kv_heads/tp, head_dim], as a tuple. Whether by three contractions or by one is said by the strategy's projections
/// policy. Where that shares keys and values, the ranks along tp each compute a part of every head's width, and
/// kv_heads of the output counts copies of heads, as many of each as give every rank whole ones: with 2 heads on 8
/// ranks 4, with 6 on 4 ranks 2, with 8 on 4 ranks one, itself. Moves then, beside x's gradient: an all-to-all of keys
/// and one of values, each backward too.
template <class S, bool Fused = bool(S::projections::fuses_qkv)>
struct query_key_value {
  static constexpr bool shares_kv = detail::shares_kv<typename S::projections>();
  using kv_linear =
      linear<S, dims<kv_heads, head_dim>, dims<hidden>, std::conditional_t<shares_kv, head_dim, kv_heads>, true>;

  linear<S, dims<heads, head_dim>, dims<hidden>, heads, true> query;
  kv_linear key, values;

  /// queries(q), keys(k): what is done with them as soon as they are there, `rope` say.
  template <any_tensor X, class Q, class K>
  auto operator()(const X& x, Q&& queries, K&& keys) const {
    auto q = queries(query(x));
    auto k = keys(by_heads(key(x)));
    return std::tuple(std::move(q), std::move(k), by_heads(values(x)));
  }

  /// Registers the weights as prefix + "query", "key", "value", born normal with this deviation. width: of hidden;
  /// size: of one head; all global.
  void add_to(parameter_registry& registry, context& ctx, const std::string& prefix, std::int64_t width,
              std::int64_t n_heads, std::int64_t n_kv_heads, std::int64_t size, double stddev) {
    const shape stream{1, {width}}, all{2, {n_heads, size}}, shared{2, {n_kv_heads, size}};
    query.add_to(registry, ctx, prefix + "query", all, stream, stddev);
    key.add_to(registry, ctx, prefix + "key", shared, stream, stddev);
    values.add_to(registry, ctx, prefix + "value", shared, stream, stddev);
  }
  /// Registers biases, born zero: prefix + "query_bias", "key_bias", "value_bias".
  void add_biases_to(parameter_registry& registry, context& ctx, const std::string& prefix, std::int64_t n_heads,
                     std::int64_t n_kv_heads, std::int64_t size) {
    query.add_bias_to(registry, ctx, prefix + "query_bias", {2, {n_heads, size}});
    key.add_bias_to(registry, ctx, prefix + "key_bias", {2, {n_kv_heads, size}});
    values.add_bias_to(registry, ctx, prefix + "value_bias", {2, {n_kv_heads, size}});
  }

 private:
  // Keys or values as attention reads them, of the heads that this rank's queries belong to.
  template <any_tensor Y>
  static auto by_heads(const Y& y) {
    if constexpr (shares_kv) {  // [batch, seq, kv_heads, head_dim/tp]
      const std::int64_t ranks = untyped(y).ctx->template degree<tp>(), n = y.template global_extent<kv_heads>();
      return all_to_all<kv_heads, tp>(repeat<kv_heads>(y, ranks / std::gcd(ranks, n)));
    } else {
      return y;
    }
  }
};

/// One weight [kv_heads, qkv_lanes, head_dim, hidden], called prefix + "qkv", and one bias, prefix + "qkv_bias".
template <class S>
struct query_key_value<S, true> {
  static constexpr bool shares_kv = false;
  linear<S, dims<kv_heads, qkv_lanes, head_dim>, dims<hidden>, kv_heads, true> all;

  template <any_tensor X, class Q, class K>
  auto operator()(const X& x, Q&& queries, K&& keys) const {
    const auto y = all(x);  // [batch, seq, kv_heads/tp, qkv_lanes, head_dim]
    const std::int64_t group = y.template global_extent<qkv_lanes>() - 2;
    auto q = queries(merge<heads, kv_heads, qkv_lanes>(slice<qkv_lanes>(y, 0, group)));
    auto k = keys(merge<kv_heads, kv_heads, qkv_lanes>(slice<qkv_lanes>(y, group, 1)));
    return std::tuple(std::move(q), std::move(k),
                      merge<kv_heads, kv_heads, qkv_lanes>(slice<qkv_lanes>(y, group + 1, 1)));
  }

  void add_to(parameter_registry& registry, context& ctx, const std::string& prefix, std::int64_t width,
              std::int64_t n_heads, std::int64_t n_kv_heads, std::int64_t size, double stddev) {
    all.add_to(registry, ctx, prefix + "qkv", sizes(n_heads, n_kv_heads, size), {1, {width}}, stddev);
  }
  void add_biases_to(parameter_registry& registry, context& ctx, const std::string& prefix, std::int64_t n_heads,
                     std::int64_t n_kv_heads, std::int64_t size) {
    all.add_bias_to(registry, ctx, prefix + "qkv_bias", sizes(n_heads, n_kv_heads, size));
  }

 private:
  static shape sizes(std::int64_t n_heads, std::int64_t n_kv_heads, std::int64_t size) {
    return {3, {n_kv_heads, n_heads / n_kv_heads + 2, size}};
  }
};

}  // namespace weft
