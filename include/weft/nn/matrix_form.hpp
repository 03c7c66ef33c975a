// A parameter as matrices, by its type: what an optimizer of whole matrices (muon) takes. Invariant: the type decides,
// never a name or a size, so that all ranks and all strategies agree.
#pragma once

#include <weft/op/placed.hpp>

namespace weft {

/// What a dimension is to a matrix. side: rows or columns. stacked: there is a matrix for each of its indices, as for
/// each head. index: it counts the rows of a table, which are looked up and never multiplied.
enum class matrix_role : std::uint8_t { side, stacked, index };

/// The role of dimension D: stacked for heads, kv_heads, expert and layer, index for vocab, seq and batch, else side. A
/// tag of a user's own says another: `static constexpr auto matrix_role = weft::matrix_role::stacked;`.
template <dimension D>
inline constexpr matrix_role matrix_role_of = [] {
  if constexpr (requires { D::matrix_role; }) return weft::matrix_role(D::matrix_role);
  constexpr bool stacked =
      std::same_as<D, heads> || std::same_as<D, kv_heads> || std::same_as<D, expert> || std::same_as<D, layer>;
  constexpr bool index = std::same_as<D, vocab> || std::same_as<D, seq> || std::same_as<D, batch>;
  return stacked ? matrix_role::stacked : index ? matrix_role::index : matrix_role::side;
}();

/// How a parameter is seen as matrices: its stacked dimensions count them, its first side is the rows, and all further
/// sides together are the columns. A table and a vector have no such form.
struct matrix_form {
  bool matrices = false;
  bool stacked[max_ndim] = {};  // by dimension, in the tensor's order
  axis_set cut_by = {};         // axes along which a rank holds a part of each matrix, rather than some of them

  constexpr explicit operator bool() const { return matrices; }
};

/// Whether tensors of this type are matrices of a layer: two sides or more, and no index.
template <any_tensor W>
inline constexpr bool has_matrix_form = []<class... Es>(dims<Es...>) {
  constexpr int sides = (0 + ... + (matrix_role_of<tag_of<Es>> == matrix_role::side));
  return sides >= 2 && ((matrix_role_of<tag_of<Es>> != matrix_role::index) && ...);
}(dims_of<W>{});

namespace detail {
/// The form of tensors of this type.
template <any_tensor W>
constexpr matrix_form matrix_form_of() {
  matrix_form out{has_matrix_form<W>};
  int d = 0;
  const auto add = [&]<class D>() {
    constexpr bool stacked = matrix_role_of<D> == matrix_role::stacked;
    out.stacked[d++] = stacked;
    [&]<class... As>(tag_list<As...>) {
      if constexpr (!stacked) (out.cut_by.add(id_of<As>), ...);
    }(shard_axes<layout_of<W>, D>{});
  };
  [&]<class... Es>(dims<Es...>) { (add.template operator()<tag_of<Es>>(), ...); }(dims_of<W>{});
  return out;
}
}  // namespace detail

}  // namespace weft
