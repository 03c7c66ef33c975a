// Embedding: rows of a table by index. Invariant: a table sharded over its rows leaves a sum pending, since each rank
// finds only the rows that it holds.
#pragma once

#include <limits>

#include <weft/backend/concept.hpp>
#include <weft/op/pair_rule.hpp>
#include <weft/op/require_ids.hpp>
#include <weft/tensor/local_run.hpp>

namespace weft {
namespace detail {

template <class Backend, class T>
struct embedding_operator {
  struct attributes {
    std::int64_t begin, count, width;
  };
  static value forward(const value& ids, const value& table, const dimension_run& rows, const shape& valid_ids);
  static void vjp(context& ctx, tape_node& node) {
    const auto at = node.template get<attributes>();
    const local_array &ids = node.saved(0), &dy = node.output_gradient();
    in_gradient_type<T>(node, {0}, [&]<class G>() {
      compute_gradient<Backend, T, G>(ctx, node, 0, [&](G* table, bool add) {
        Backend::embedding_backward(ctx.queue<Backend>(), ids.elements(), at.width, ids.template as<std::int32_t>(),
                                    at.begin, at.count, dy.template as<T>(), table, add);
      });
    });
  }
};

template <class Backend, class T>
value embedding_operator<Backend, T>::forward(const value& ids, const value& table, const dimension_run& rows,
                                              const shape& valid_ids) {
  context& ctx = *table.ctx;
  require_one_context("embedding", {&ids, &table});
  const attributes at{rows.first, rows.valid, table.held().shape[1]};
  shape s = ids.held().shape, whole = ids.whole;
  s.push_back(at.width);
  whole.push_back(table.whole[1]);
  return operate<T>(
      {"embedding", vjp}, table.ctx, whole, s, {&table, &ids},
      [&](const local_array& y) {
        Backend::embedding(ctx.queue<Backend>(), ids.held().elements(), at.width,
                           ids.held().template as<std::int32_t>(), at.begin, at.count, table.held().template as<T>(),
                           y.template as<T>());
      },
      [&](tape_node& node) {
        node.set(at);
        node.save(with_padding<Backend>(ctx, ids.held(), valid_ids, -1));  // whose gradients no row gets
      });
}

// On one axis the indices are sharded or the table's rows are or its columns are, and not two of them.
template <class I, class W, class A>
constexpr rule_result embedding_on() {
  constexpr on_axis ids = state_on<layout_of<I>, A>, table = state_on<layout_of<W>, A>;
  if constexpr (table.kind == holds::shard && table.dim == dims_of<W>::ids[0])
    return ids.kind == holds::shard ? rule_result{{}, verdict::two_dims} : rule_result{{holds::partial}};
  else
    return product_rule({ids}, {table});
}
template <class I, class W, class Axes>
struct embedding_rule;
template <class I, class W, class... As>
struct embedding_rule<I, W, tag_list<As...>> : on_this_axis<As, embedding_on<I, W, As>().why>... {
  static constexpr bool ok = ((embedding_on<I, W, As>().why == verdict::ok) && ...);
  using layout = typename insert_all<weft::layout<>, decltype(placement_of<embedding_on<I, W, As>().at.kind, As,
                                                                           layout_of<I>, layout_of<W>>())...>::type;
};

}  // namespace detail

/// Shape: ids [...] of int32, table [rows, width], out [..., width]. A negative id is no token and gives zeros; one
/// beyond the table is an error, where the host can see it. Placement, on each axis: ids sharded and the table whole
/// keeps that shard; rows sharded and ids whole gives partial; width sharded and ids whole keeps that shard. Cost: a
/// copy; no operations.
template <any_tensor I, any_tensor W>
auto embedding(const I& ids, const W& table, call_site at = call_site::here()) {
  using other_ids = detail::not_ids<I>;
  static_assert(detail::none<other_ids>,
                "weft: embedding(ids, table) takes ids of int32: make them so, from_global<tensor<std::int32_t, "
                "dims<...>>>(ctx, {...}, numbers)");
  static_assert(!detail::none<other_ids> || detail::none<integers_in<W>>,
                "weft: embedding(ids, table) takes a table of floating elements: cast<float>(table)");
  static_assert(detail::none<pending_in<layout_of<I>>>,
                "weft: embedding(ids, table) can't look up pending sums: all_reduce<axis> the ids first");
  constexpr bool is_table = dims_of<W>::ndim == 2;
  static_assert(is_table, "weft: embedding(ids, table) takes a table [rows, width]");
  static_assert(detail::ask_backends<I, W>());
  if constexpr (is_table && detail::none<other_ids> && detail::none<integers_in<W>> &&
                detail::none<backends_in<I, W>>) {
    using rule = detail::embedding_rule<I, W, axes_of_all<layout_of<I>, layout_of<W>>>;
    if constexpr (rule::ok)
      return [at]<class Rows, class Width>(const I& i, const W& w, dims<Rows, Width>) {
        using result = basic_tensor<typename W::element_type, dims_concat<dims_of<I>, dims<Width>>,
                                    typename rule::layout, typename W::backend>;
        detail::compare_operand<typename rule::layout>(i, "embedding", at);
        require_ids(i, std::numeric_limits<std::int32_t>::min(), w.template global_extent<tag_of<Rows>>(), "the token");
        return result(detail::embedding_operator<typename W::backend, typename W::element_type>::forward(
            untyped(i), detail::promoted<typename rule::layout>(w, "embedding", at),
            run_of<layout_of<W>, tag_of<Rows>>(*untyped(w).ctx, w.template global_extent<tag_of<Rows>>()),
            detail::valid_part(i)));
      }(ids, table, dims_of<W>{});
  }
}

}  // namespace weft
