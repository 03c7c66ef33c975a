// What attention computes on one rank, and its backward, whatever the types say: one function for each element type.
// Invariant: nothing of the size seq x seq is kept; with a cache, keys and values are kept before any query sees them.
#pragma once

#include <cmath>

#include <weft/autograd/operate.hpp>
#include <weft/backend/concept.hpp>
#include <weft/core/finite.hpp>
#include <weft/op/kv_cache.hpp>

namespace weft {

/// causal: a query sees no key after its own position. scale: what q k^T is multiplied by before the softmax. window:
/// of those up to its own a query sees the last so many keys (a sliding window, Beltagy et al. 2020). cache: keys and
/// values of before: q, k and v are of each sequence's next tokens alone, k and v are kept, and queries see all.
struct attention_options {
  bool causal = true;
  double scale = 0;         // 0: 1 / sqrt(head_dim)
  std::int64_t window = 0;  // 0: all
  kv_cache* cache = nullptr;
};

namespace detail {

/// Throws where attention can't stop at the borders of documents.
WEFT_LINKED void require_documents(const value& starts, const value& q, const attention_shape& s,
                                   const kv_cache* cache) {
  require(!cache,
          "attention: with a kv_cache each sequence is one document: leave the starts of documents out, or read the "
          "whole text without a cache");
  require(s.causal && s.q_len == s.kv_len,
          "attention: queries that see their own document are causal and have the "
          "keys' positions, and here are ",
          s.q_len, " queries for ", s.kv_len, " keys, causal: ", s.causal ? "yes" : "no");
  require(starts.whole[0] == q.whole[0] && starts.whole[1] == q.whole[1], "attention: the starts of documents are of ",
          starts.whole[0], " sequences of ", starts.whole[1], " tokens, and the queries of ", q.whole[0], " of ",
          q.whole[1], ": document_starts(tokens, end) makes them of the tokens that q is of");
}

template <class Backend, class T>
struct attention_operator {
  /// documents: null, or document_starts of these sequences.
  static value forward(const value& q, const value& k, const value& v, const value* documents,
                       attention_options options);
  // Sequence by sequence, since each has its own length.
  static value with_cache(const value& q, const value& k, const value& v, attention_shape s, kv_cache& cache) {
    context& ctx = *q.ctx;
    require_of_cache("attention", ctx, cache, s.batch, s.q_len);
    require(s.causal && s.q_len == s.kv_len, "attention: with a kv_cache it is causal, and k and v are of q's tokens");
    const kv_cache::layer& kept = cache.next_layer(dtype_of<T>, s.kv_heads, s.head_dim);
    const std::int64_t row = s.kv_heads * s.head_dim, q_row = s.heads * s.head_dim, tokens = s.q_len;
    s.batch = 1;
    double flops = 0;
    for (std::int64_t i = 0; i < cache.sequences(); ++i) {
      s.q_len = cache.added(i), s.kv_len = cache.length(i) + s.q_len;
      flops += 4.0 * static_cast<double>(s.q_len * q_row) * keys_of_a_query(s);
    }
    return operate_like<T>(
        q, {"attention", nullptr, flops}, {&q, &k, &v},
        [&](const local_array& out) {
          auto& queue = ctx.queue<Backend>();
          const local_array sums = ctx.make(dtype_of<accumulate_t<T>>, {4, {2, 1, s.heads, tokens}});
          for (std::int64_t i = 0; i < cache.sequences(); ++i) {
            s.q_len = cache.added(i), s.kv_len = cache.length(i) + s.q_len;
            if (s.q_len < tokens)
              Backend::zero(queue, seen(out, (i * tokens + s.q_len) * q_row, {1, {(tokens - s.q_len) * q_row}}));
            if (s.q_len == 0) continue;
            T* const keys = kept.keys.template as<T>() + i * cache.capacity() * row;
            T* const values = kept.values.template as<T>() + i * cache.capacity() * row;
            const std::int64_t before = cache.length(i) * row, from = i * tokens * row;
            const std::int64_t bytes = s.q_len * row * static_cast<std::int64_t>(sizeof(T));
            Backend::copy_bytes(queue, k.held().template as<T>() + from, keys + before, bytes);
            Backend::copy_bytes(queue, v.held().template as<T>() + from, values + before, bytes);
            Backend::attention(queue, s, q.held().template as<T>() + i * tokens * q_row, static_cast<const T*>(keys),
                               static_cast<const T*>(values), out.template as<T>() + i * tokens * q_row,
                               sums.template as<accumulate_t<T>>());
          }
        },
        [](tape_node&) {});
  }
  // About how many keys a query sees.
  static double keys_of_a_query(const attention_shape& s) {
    const double all = static_cast<double>(s.kv_len) / (s.causal ? 2 : 1);
    return s.window > 0 ? std::min(all, static_cast<double>(s.window)) : all;
  }
  static void vjp(context& ctx, tape_node& node) {
    auto s = node.template get<attention_shape>();
    if (s.documents) s.documents = node.saved(5).template as<const std::int32_t>();
    gradient_target d[3];
    for (int i = 0; i < 3; ++i)  // the kernel writes all three; one that is not wanted goes nowhere
      d[i] = node.input(i) ? separate_target<Backend, T>(ctx, node, i)
                           : gradient_target{ctx.make(dtype_of<T>, node.saved(i).shape), false};
    Backend::attention_backward(ctx.queue<Backend>(), s, node.saved(0).template as<T>(), node.saved(1).template as<T>(),
                                node.saved(2).template as<T>(), node.saved(3).template as<T>(),
                                node.saved(4).template as<accumulate_t<T>>(), node.output_gradient().template as<T>(),
                                d[0].to.template as<T>(), d[0].add, d[1].to.template as<T>(), d[1].add,
                                d[2].to.template as<T>(), d[2].add);
    for (int i = 0; i < 3; ++i) add_separate<Backend, T>(ctx, node, i, d[i]);
  }
};

template <class Backend, class T>
value attention_operator<Backend, T>::forward(const value& q, const value& k, const value& v, const value* documents,
                                              attention_options options) {
  context& ctx = *q.ctx;
  const shape &sq = q.held().shape, &sk = k.held().shape;
  const attention_shape s{sq[0],
                          sq[1],
                          sk[1],
                          sq[2],
                          sk[2],
                          sq[3],
                          options.scale != 0 ? options.scale : 1.0 / std::sqrt(static_cast<double>(sq[3])),
                          options.causal,
                          options.window,
                          documents ? documents->held().template as<const std::int32_t>() : nullptr};
  require(is_finite(s.scale), "attention: scale is ", s.scale,
          "; it is a finite number, and 0 stands for 1 / sqrt(head_dim)");
  require(s.window >= 0 && (s.causal || s.window == 0), "attention: a window of ", s.window,
          " keys; it is of those up to a query's own position, so causal is true and it is at least 1, or 0 for all");
  const std::int64_t all_heads = q.whole[2], all_kv_heads = k.whole[2];
  require(all_heads % all_kv_heads == 0, "attention: ", all_heads, " query heads don't divide into groups of ",
          all_kv_heads, " key and value heads");
  require(s.heads == s.kv_heads * (all_heads / all_kv_heads), "attention: this rank has ", s.heads, " of ", all_heads,
          " query heads and ", s.kv_heads, " of ", all_kv_heads,
          " key and value heads, so that heads of one group lie ",
          "on two ranks; choose a degree that divides the key and value heads");
  require(sk == v.held().shape, "attention: keys and values have different sizes");
  require(sq[0] == sk[0] && sq[3] == sk[3], "attention: queries have ", sq[0], " sequences and heads of width ", sq[3],
          ", keys have ", sk[0], " and ", sk[3], "; both have to agree");
  if (documents) require_documents(*documents, q, s, options.cache);
  if (options.cache) return with_cache(q, k, v, s, *options.cache);
  local_array sums;
  const auto over = [&](value_list inputs) {
    return operate_like<T>(
        q,
        {"attention", vjp, 4.0 * static_cast<double>(sq.elements()) * keys_of_a_query(s),
         computed_by(s.scale, s.causal, s.window)},
        inputs,
        [&](const local_array& out) {
          sums = ctx.make(dtype_of<accumulate_t<T>>, {4, {2, s.batch, s.heads, s.q_len}});
          Backend::attention(ctx.queue<Backend>(), s, q.held().template as<T>(), k.held().template as<T>(),
                             v.held().template as<T>(), out.template as<T>(), sums.as<accumulate_t<T>>());
        },
        [&](tape_node& node, const value& out) {
          node.set(s);
          for (const value* x : {&q, &k, &v}) node.save(*x);
          node.save(out.data), node.save(sums);
          if (documents) node.save(*documents);
        },
        {&sums});
  };
  return documents ? over({&q, &k, &v, documents}) : over({&q, &k, &v});
}

}  // namespace detail

}  // namespace weft
