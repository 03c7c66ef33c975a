// Contractions as matrix products: dimensions become labels, labels with one role join, the rest are loops.
// Invariant: no operand is ever copied to make a product possible; strides say how to read it.
#pragma once

#include <algorithm>

#include <weft/backend/kernels.hpp>
#include <weft/op/placed.hpp>

namespace weft::detail {

/// Which label (0 ... count-1) each dimension of a, b and the output has.
struct contraction_labels {
  std::int8_t count = 0, ndim[3] = {};
  std::int8_t of[3][max_ndim] = {};
};

template <class DA, class DB, class DC>
constexpr contraction_labels labels_of() {
  using all = dims_concat<DA, dims_missing<DB, DA>>;
  static_assert(all::ndim <= max_ndim, "weft: a contraction of more than 8 different dimensions");
  contraction_labels out;
  out.count = all::ndim;
  const auto fill = [&]<class... Es>(int which, dims<Es...>) {
    ((out.of[which][out.ndim[which]++] = static_cast<std::int8_t>(all::template index<tag_of<Es>>)), ...);
  };
  fill(0, DA{});
  fill(1, DB{});
  fill(2, DC{});
  return out;
}

/// One label: its size, and its stride in each of the three operands (0 where the operand lacks it).
struct labelled {
  std::int64_t size;
  std::int64_t stride[3];
  /// 0 batch, 1 rows (first and out), 2 columns (second and out), 3 summed.
  int role() const {
    const bool a = stride[0] != 0, b = stride[1] != 0, c = stride[2] != 0;
    return a && b ? (c ? 0 : 3) : (a ? 1 : 2);
  }
};

struct contraction_plan {
  labelled label[max_ndim];
  int count = 0;
  bool empty = false;  // a summed label has padding only

  // Strides of row-major arrays for the operands in the order (first, second, out). Of a summed label only the elements
  // that are valid count.
  contraction_plan(const contraction_labels& l, const std::int64_t* valid, const shape* shapes[3], const int order[3]) {
    labelled all[max_ndim] = {};
    for (int slot = 0; slot < 3; ++slot) {
      const int which = order[slot];
      std::int64_t stride = 1;
      for (int d = l.ndim[which] - 1; d >= 0; --d) {
        labelled& entry = all[l.of[which][d]];
        entry.size = (*shapes[which])[d];
        entry.stride[slot] = stride;
        stride *= entry.size;
      }
    }
    for (int i = 0; i < l.count; ++i) {
      if (all[i].stride[2] == 0) {
        all[i].size = valid[i];
        empty = empty || valid[i] == 0;
      }
      if (all[i].size == 1) continue;
      if (count && joins(label[count - 1], all[i])) {
        labelled& last = label[count - 1];
        last.size *= all[i].size;
        std::copy(all[i].stride, all[i].stride + 3, last.stride);
      } else {
        label[count++] = all[i];
      }
    }
  }

 private:
  static bool joins(const labelled& outer, const labelled& inner) {
    for (int i = 0; i < 3; ++i)
      if (outer.stride[i] != inner.stride[i] * inner.size) return false;
    return outer.role() == inner.role();
  }
};

/// What follows a product, and of how many columns its bias is; 0: nothing.
struct product_tail {
  matmul_epilogue after;
  std::int64_t width = 0;
};

/// The product that a plan gives the backend: labels of each role, one or none, and how it reads and writes.
struct planned_product {
  // For rows and columns the label that is contiguous in the output, or else the largest; for sums and batches the
  // largest.
  int pick[4] = {-1, -1, -1, -1};
  matmul_shape sizes;
  strides a, b, c;
  bool exchanged = false;  // the output is contiguous along its rows: c^T = b^T a^T, the same numbers
  bool is_all = true;      // no label is left

  explicit planned_product(const contraction_plan& plan) {
    const auto better = [&](int i, int than, int role) {
      if (than < 0) return true;
      if (role == 1 || role == 2) {
        const bool here = plan.label[i].stride[2] == 1, there = plan.label[than].stride[2] == 1;
        if (here != there) return here;
      }
      return plan.label[i].size > plan.label[than].size;
    };
    for (int i = 0; i < plan.count; ++i) {
      const int role = plan.label[i].role();
      is_all = is_all && pick[role] < 0;
      if (better(i, pick[role], role)) pick[role] = i;
    }
    const labelled one{1, {0, 0, 0}};
    const auto chosen = [&](int role) -> const labelled& { return pick[role] < 0 ? one : plan.label[pick[role]]; };
    const labelled &batch = chosen(0), &rows = chosen(1), &columns = chosen(2), &sums = chosen(3);
    exchanged = pick[1] >= 0 && rows.stride[2] == 1 && columns.stride[2] != 1;
    sizes = {batch.size, rows.size, columns.size, sums.size};
    a = {rows.stride[0], sums.stride[0], batch.stride[0]}, b = {sums.stride[1], columns.stride[1], batch.stride[1]};
    c = {rows.stride[2], columns.stride[2], batch.stride[2]};
    if (exchanged) {
      std::swap(sizes.m, sizes.n);
      std::swap(a.row, a.column), std::swap(b.row, b.column), std::swap(c.row, c.column);
      std::swap(a, b);
    }
    if (sizes.n == 1) c.column = 1;
  }
  /// Whether it is one matrix with contiguous columns, and nothing is left.
  bool is_one_matrix() const { return is_all && sizes.batch == 1 && c.column == 1; }
};

/// out (+)= sum of first * second over the labels that out lacks, as calls of the backend's matrix product.
///
/// The product knows batches, rows, columns and sums, one label of each, and reads any strides; what the plan has more
/// of is looped over. So there are three steps: choose the label of each role that the product gets; turn the product
/// round where the output is contiguous along its rows, since kernels write contiguous columns; and walk the other
/// labels, from the outermost, to one product for each of their indices. A looped label that is summed makes the
/// products after its first add to what the first one wrote. `after` follows where its bias has the columns of one
/// product, which is all there is: whether it did, and if not, nothing was done.
template <class Backend, class T, class Out>
bool run_contraction(typename Backend::queue& queue, const contraction_plan& plan, const T* a, const T* b, Out* c,
                     bool add, const product_tail& tail = {}) {
  planned_product p(plan);
  if (tail.width > 0) {
    if constexpr (epilogue_kernel<Backend, T> && std::same_as<T, Out>)
      return p.is_one_matrix() && !p.exchanged && p.sizes.n == tail.width &&
             Backend::matmul(queue, p.sizes, a, p.a, b, p.b, c, p.c, tail.after);
    return false;
  }
  const auto product = [&](const T* x, const T* y, Out* z, bool accumulate) {
    Backend::matmul(queue, p.sizes, p.exchanged ? y : x, p.a, p.exchanged ? x : y, p.b, z, p.c, accumulate);
  };
  // Columns that are not contiguous (a batch dimension lies inside them in the output): one column at a time.
  const bool by_column = p.c.column != 1;
  const auto columns_of = [&](const T* x, const T* y, Out* z, bool accumulate) {
    if (!by_column) return product(x, y, z, accumulate);
    const matmul_shape all = std::exchange(p.sizes, {p.sizes.batch, p.sizes.m, 1, p.sizes.k});
    const strides out = std::exchange(p.c, {p.c.row, 1, p.c.batch});
    for (std::int64_t j = 0; j < all.n; ++j) product(x, y + j * p.b.column, z + j * out.column, accumulate);
    p.sizes = all;
    p.c = out;
  };
  // Walk the labels that the product doesn't take; `accumulate` is whether something was written at z before.
  const auto loop = [&](auto&& self, int i, const T* x, const T* y, Out* z, bool accumulate) -> void {
    while (i < plan.count && std::find(p.pick, p.pick + 4, i) != p.pick + 4) ++i;
    if (i == plan.count) return columns_of(x, y, z, accumulate);
    const labelled& l = plan.label[i];
    for (std::int64_t k = 0; k < l.size; ++k)
      self(self, i + 1, x + k * l.stride[0], y + k * l.stride[1], z + k * l.stride[2],
           accumulate || (l.role() == 3 && k > 0));
  };
  loop(loop, 0, a, b, c, add);
  return true;
}

}  // namespace weft::detail
