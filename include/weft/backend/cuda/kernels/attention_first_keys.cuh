// Where the keys begin that a warpgroup's queries see. Invariant: what first_keys says is what tensor_shape says.
#pragma once

#include <weft/backend/cuda/kernels/attention_tensor.hpp>

namespace weft::gpu {

/// Of a warpgroup's queries, `group` on, of its warp's 16, `mine` on, and of a lane's two of those. Without documents
/// nothing is kept: it is made anew from a few numbers that all warps have.
template <int D, bool Documents>
struct first_keys {
  first_keys() = default;
  __device__ first_keys(const tensor_shape<D>&, int, int, int, int) {}

  __device__ bool none(const tensor_shape<D>& s, int b, int group, int queries, int key, int keys) const {
    return s.sees_none(b, group, queries, key, keys);
  }
  __device__ bool all(const tensor_shape<D>& s, int b, int mine, int key, int keys) const {
    return s.sees_all(b, mine, 16, key, keys);
  }
  /// Of row i of this lane's, which is `query`.
  __device__ int of(const tensor_shape<D>& s, int b, int, int query) const { return s.first_key(b, query); }
};

/// With documents it is read from memory once, and stays in registers over all tiles of keys.
template <int D>
struct first_keys<D, true> {
  using shape = tensor_shape<D, true>;
  int of_group, of_last;
  array_of<int, 2> of_rows;

  first_keys() = default;
  __device__ first_keys(const shape& s, int b, int group, int mine, int lane)
      : of_group(s.first_key(b, group)), of_last(s.first_key(b, mine + 15)) {
    WEFT_UNROLLED for (int i = 0; i < 2; ++i) of_rows[i] = s.first_key(b, mine + lane / 4 + i * 8);
  }

  __device__ bool none(const shape& s, int, int group, int queries, int key, int keys) const {
    return group >= s.q_len || key >= s.end_key(group + queries - 1) || key + keys <= of_group;
  }
  __device__ bool all(const shape& s, int, int mine, int key, int keys) const {
    return mine + 16 <= s.q_len && key + keys <= s.end_key(mine) && key >= of_last;
  }
  __device__ int of(const shape&, int, int i, int) const { return of_rows[i]; }
};

}  // namespace weft::gpu
