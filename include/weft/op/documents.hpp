// Documents that lie one behind the other in a sequence: where each begins, and positions that count from there.
// Invariant: along a row the beginnings never fall, and none lies behind its own token; attention relies on the first.
#pragma once

#include <array>
#include <limits>

#include <weft/autograd/operate.hpp>
#include <weft/backend/concept.hpp>
#include <weft/core/anywhere.hpp>
#include <weft/core/refusal.hpp>

namespace weft {
namespace detail {

// What kernels do of a row; offsets are those of the input's and the output's first element.
using row_offsets = std::array<std::int64_t, 2>;

/// The token behind each `end` begins a document, and so does the first.
struct mark_starts {
  const std::int32_t* tokens;
  std::int32_t* starts;
  std::int64_t length;
  std::int32_t end;

  WEFT_ANYWHERE void operator()(const row_offsets& at) const {
    std::int32_t begin = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      if (i > 0 && tokens[at[0] + i - 1] == end) begin = static_cast<std::int32_t>(i);
      starts[at[1] + i] = begin;
    }
  }
};
struct count_from_starts {
  const std::int32_t* starts;
  std::int32_t* positions;
  std::int64_t length;

  WEFT_ANYWHERE void operator()(const row_offsets& at) const {
    for (std::int64_t i = 0; i < length; ++i) positions[at[1] + i] = static_cast<std::int32_t>(i) - starts[at[0] + i];
  }
};

template <class Backend>
concept marks_documents = requires(typename Backend::queue& queue, const std::int64_t* extents,
                                   const std::array<const std::int64_t*, 2>& strides, const mark_starts& mark) {
  Backend::each_line(queue, 1, extents, strides, std::int64_t{1}, mark);
};

/// [batch, Seq] of int32, the sequence whole: what documents are told of.
template <class D, class Seq>
inline constexpr bool is_rows_of = D::ndim == 2 && D::template index<Seq> == 1;
template <dimension Seq, any_tensor X>
inline constexpr bool tells_documents =
    std::same_as<typename X::element_type, std::int32_t>&& is_rows_of<dims_of<X>, Seq>&&
            shard_axes<layout_of<X>, Seq>::size == 0 &&
    !has_partial<layout_of<X>>;

/// y, placed as x: row(where x's and y's numbers lie) for every row of x.
template <any_tensor X, class Row>
X of_each_row(const X& x, const operation& what, const Row& row) {
  using B = typename X::backend;
  const value& in = untyped(x);
  context& ctx = *in.ctx;
  const local_array& held = in.held();
  return X(operate_like<std::int32_t>(
      in, what, {&in},
      [&](const local_array& y) {
        const std::int64_t rows = held.shape[0], length = held.shape[1];
        const std::array<const std::int64_t*, 2> strides{&length, &length};
        B::each_line(ctx.queue<B>(), 1, &rows, strides, length,
                     row(held.template as<const std::int32_t>(), y.template as<std::int32_t>(), length));
      },
      [](tape_node&) {}));
}

}  // namespace detail

/// Of tokens [batch, Seq] that hold documents one behind the other, each ended by the token `end`: for every token the
/// position in its sequence at which its document begins. attention(q, k, v, document_starts(tokens, end)) stops there.
/// A sequence's first token begins one, whatever came before. Placement: any, the sequence whole; out as tokens. Cost:
/// one read and one write; no operations. Throws where `end` is no token, below 0.
template <dimension Seq = seq, any_tensor Ids>
Ids document_starts(const Ids& tokens, std::int64_t end) {
  static_assert(detail::tells_documents<Seq, Ids>,
                "weft: document_starts(tokens, end) takes tokens of int32 [batch, seq], the sequence whole on every "
                "rank: all_gather<axis>(tokens) it first");
  require(end >= 0 && end <= std::numeric_limits<std::int32_t>::max(), "document_starts: the token that ends a ",
          "document is ", end, "; it is one of the vocabulary, which counts from 0");
  if constexpr (detail::tells_documents<Seq, Ids>) {
    static_assert(detail::marks_documents<typename Ids::backend>,
                  "weft: document_starts(tokens, end) is a loop that its tensor's backend lacks: each_line "
                  "(docs/policies/backend.md)");
    return detail::of_each_row(tokens, {"document_starts", nullptr, 0, detail::computed_by(end)},
                               [end](const std::int32_t* in, std::int32_t* out, std::int64_t length) {
                                 return detail::mark_starts{in, out, length, static_cast<std::int32_t>(end)};
                               });
  } else {
    return tokens;
  }
}

/// The positions of tokens in their documents, of what document_starts gives: 0, 1, ... from each document's first.
/// Placed as `starts`.
template <dimension Seq = seq, any_tensor Starts>
Starts document_positions(const Starts& starts) {
  static_assert(detail::tells_documents<Seq, Starts>,
                "weft: document_positions(starts) takes what document_starts gives, int32 [batch, seq]");
  if constexpr (detail::tells_documents<Seq, Starts>) {
    static_assert(detail::marks_documents<typename Starts::backend>,
                  "weft: document_positions(starts) is a loop that its tensor's backend lacks: each_line "
                  "(docs/policies/backend.md)");
    return detail::of_each_row(starts, {"document_positions", nullptr},
                               [](const std::int32_t* in, std::int32_t* out, std::int64_t length) {
                                 return detail::count_from_starts{in, out, length};
                               });
  } else {
    return starts;
  }
}

}  // namespace weft
