// Operands broadcast to one output by the names of their dimensions: where each dimension of the output lies in each
// operand, and the way back, which sums a gradient over the dimensions that an operand lacks.
// Invariant: the output's dimensions are the first operand's, then those of the next that are new, and so on; that sum
// leaves padding out.
#pragma once

#include <weft/autograd/operate.hpp>
#include <weft/backend/concept.hpp>
#include <weft/op/placed.hpp>

namespace weft::detail {

inline constexpr int max_operands = 3;

/// For each dimension of the output: its position in every operand, or -1.
struct broadcast_map {
  std::int8_t ndim = 0;
  std::int8_t at[max_operands][max_ndim] = {};
};

template <class D, class... Ds>
struct joined_dims {
  using type = D;
};
template <class D, class E, class... Ds>
struct joined_dims<D, E, Ds...> : joined_dims<dims_concat<D, dims_missing<E, D>>, Ds...> {};
/// The dimensions of several dims<...>, each once, in the order in which they come.
template <class... Ds>
using dims_joined = typename joined_dims<Ds...>::type;

template <class... Ds>
constexpr broadcast_map broadcast_of() {
  static_assert(sizeof...(Ds) <= max_operands);
  broadcast_map m;
  [&]<class... Es>(dims<Es...>) {
    static_assert(sizeof...(Es) <= max_ndim, "weft: more than 8 dimensions in one operator");
    [[maybe_unused]] const auto put = [&]<class D>() {
      int operand = 0;
      ((m.at[operand++][m.ndim] = static_cast<std::int8_t>(Ds::template index<D>)), ...);
      ++m.ndim;
    };
    (put.template operator()<tag_of<Es>>(), ...);
  }(dims_joined<Ds...>{});
  return m;
}

/// The first operand that has dimension d of the output.
inline int operand_with(const broadcast_map& m, int d) {
  int i = 0;
  while (m.at[i][d] < 0) ++i;
  return i;
}
/// The operand's shape, whose dimensions are some of the output's.
WEFT_LINKED shape operand_shape(const broadcast_map& m, int which, const shape& out) {
  shape own;
  for (int d = 0; d < m.ndim; ++d) own.ndim += m.at[which][d] >= 0;
  for (int d = 0; d < m.ndim; ++d)
    if (m.at[which][d] >= 0) own[m.at[which][d]] = out[d];
  return own;
}
/// Whether the operand has the output's dimensions, in their order.
inline bool straight(const broadcast_map& m, int which) {
  for (int d = 0; d < m.ndim; ++d)
    if (m.at[which][d] != d) return false;
  return true;
}
/// Strides of an operand in the order of the output, 0 where it is broadcast.
WEFT_LINKED void broadcast_strides(const broadcast_map& m, int which, const shape& operand, std::int64_t* out) {
  std::int64_t own[max_ndim];
  row_major(operand, own);
  for (int d = 0; d < m.ndim; ++d) out[d] = m.at[which][d] < 0 ? 0 : own[m.at[which][d]];
}

template <class Backend, class T, class G>
void give_operand_as(context& ctx, tape_node& node, int i, const broadcast_map& map, const shape& out,
                     const shape& valid, const local_array& g) {
  const shape own = operand_shape(map, i, out);
  if (own == out && straight(map, i)) return contribute<Backend, T>(ctx, node, i, g);
  bool reduced[max_ndim];
  shape kept;
  int order[max_ndim], n = 0;
  bool in_order = true;
  for (int d = 0; d < map.ndim; ++d) {
    reduced[d] = map.at[i][d] < 0;
    if (reduced[d]) continue;
    kept.push_back(out[d]);
    order[n] = map.at[i][d];
    in_order = in_order && order[n] == n;
    ++n;
  }
  local_array sum = ctx.make(dtype_of<G>, kept);
  const local_array addends = with_padding<Backend>(ctx, g, valid);
  Backend::template reduce_dims<reduce::sum>(ctx.queue<Backend>(), map.ndim, out.extent, reduced,
                                             addends.template as<T>(), sum.template as<G>(), false);
  if (in_order) return contribute<Backend, T, G>(ctx, node, i, sum);
  local_array turned = ctx.make(dtype_of<G>, own);
  std::int64_t from[max_ndim], to[max_ndim], own_stride[max_ndim];
  row_major(own, own_stride);
  row_major(kept, from);
  for (int d = 0; d < n; ++d) to[d] = own_stride[order[d]];
  Backend::copy(ctx.queue<Backend>(), n, kept.extent, sum, from, turned, to);
  contribute<Backend, T, G>(ctx, node, i, turned);
}
/// Contributes g, a gradient of the output's shape, to operand i of type T: summed over the dimensions that it lacks,
/// without their padding, and put in its order. valid: the output's, see valid_part.
template <class Backend, class T>
void give_operand(context& ctx, tape_node& node, int i, const broadcast_map& map, const shape& out, const shape& valid,
                  const local_array& g) {
  in_gradient_type<T>(node, {i}, [&]<class G>() { give_operand_as<Backend, T, G>(ctx, node, i, map, out, valid, g); });
}

}  // namespace weft::detail
