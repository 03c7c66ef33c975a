// What the kernel for dk and dv keeps in shared memory of a tile of queries beside their rows. Invariant: of keys it
// says what tensor_shape says.
#pragma once

#include <type_traits>

#include <weft/backend/cuda/kernels/attention_tensor_backward.hpp>

namespace weft::gpu {

/// Of each of N queries the level of its weights and delta, as attention_tensor_gradient::kept.
template <int N>
struct levels_and_deltas {
  float levels[N], deltas[N];
};
/// And the first key that each sees, and how many it sees, none where it is no query: with documents, whose borders lie
/// in memory, far from the warps that compute.
template <int N>
struct levels_deltas_and_keys : levels_and_deltas<N> {
  int firsts[N], seen[N];
};

/// A tile of queries, from q0 on, of a head of batch entry b.
template <class T, int D, bool Documents, int N>
struct kept_queries : std::conditional_t<Documents, levels_deltas_and_keys<N>, levels_and_deltas<N>> {
  using gradient = attention_tensor_gradient<T, D, Documents>;
  using shape = tensor_shape<D, Documents>;
  using sight = typename gradient::sight;

  /// By a warp.
  template <class Block>
  __device__ void keep(const Block& block, const gradient& from, int b, int h, int q0) {
    const shape& s = from.shape;
    WEFT_ROLLED for (int i = block.lane(); i < N; i += warp_size) {
      const int row = s.row_at(b, h, q0 + i < s.q_len ? q0 + i : q0);
      const auto kept = from.kept_of(from.sums[row], from.sums[s.all_rows() + row], from.delta[row]);
      this->levels[i] = kept.level;
      this->deltas[i] = kept.delta;
    }
    if constexpr (Documents) WEFT_ROLLED for (int i = block.lane(); i < N; i += warp_size) {
        const int first = s.first_key(b, q0 + i);
        this->firsts[i] = first;
        this->seen[i] = q0 + i < s.q_len ? s.end_key(q0 + i) - first : 0;
      }
  }

  /// As in tensor_shape.
  __device__ bool sees_none(const shape& s, int b, int q0, int key, int keys) const {
    if constexpr (Documents)
      return key >= s.end_key(q0 + N - 1) || key + keys <= this->firsts[0];
    else
      return s.sees_none(b, q0, N, key, keys);
  }
  __device__ bool sees_all(const shape& s, int b, int q0, int key, int keys) const {
    if constexpr (Documents)
      return q0 + N <= s.q_len && key + keys <= s.end_key(q0) && key >= this->firsts[N - 1];
    else
      return s.sees_all(b, q0, N, key, keys);
  }

  /// f(n, j, number, sight) for this lane's part of products [16 keys from `key` on, N]: `numbers` are levels or
  /// deltas.
  template <class Block, class F>
  __device__ void each(const Block& block, const shape& s, const float* numbers, int b, int q0, int key, F f) const {
    const auto go = [&](auto sees) {
      WEFT_UNROLLED for (int n = 0; n < N / 8; ++n) {
        const pack<float, 2> of = block.template load<2>(numbers + n * 8 + block.lane() % 4 * 2);
        WEFT_UNROLLED for (int j = 0; j < 4; ++j) f(n, j, of.at[j % 2], sees(n, j));
      }
    };
    if (sees_all(s, b, q0, key, 16)) {
      go([](int, int) { return sight{true, false}; });
    } else if constexpr (Documents) {
      const int lane = block.anew(block.lane()), mine = key + lane / 4;
      const int *const first = this->firsts + lane % 4 * 2, *const seen = this->seen + lane % 4 * 2;
      go([&](int n, int j) {
        const int at = n * 8 + j % 2;
        const auto behind = static_cast<unsigned>(mine + j / 2 * 8 - first[at]);  // of keys before the first, many
        return sight{behind < static_cast<unsigned>(seen[at]), seen[at] == 1};
      });
    } else {
      array_of<int, 2> behind, seen;  // the first query that sees this lane's keys; so many that do
      const int lane = block.anew(block.lane());
      WEFT_UNROLLED for (int i = 0; i < 2; ++i) {
        const int mine = key + lane / 4 + i * 8, first = s.first_query(mine);
        behind[i] = q0 + lane % 4 * 2 - first;
        seen[i] = mine < s.kv_len ? s.end_query(b, mine + 1) - first : 0;
      }
      go([&](int n, int j) {
        const int at = behind[j / 2] + n * 8 + j % 2, query = q0 + n * 8 + block.lane() % 4 * 2 + j % 2;
        return sight{at >= 0 && at < seen[j / 2], s.end_key(query) - s.first_key(b, query) == 1};
      });
    }
  }
};

}  // namespace weft::gpu
