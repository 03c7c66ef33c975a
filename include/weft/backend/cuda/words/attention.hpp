// The words for attention: which kernel runs on which grid, with which tiles. Invariant: a grid says how many blocks
// share the tiles, never what is added up in which order.
#pragma once

#include <algorithm>

#include <weft/backend/cuda/kernels/attention.hpp>
#include <weft/backend/cuda/kernels/attention_backward.hpp>
#include <weft/backend/cuda/kernels/attention_tensor.hpp>
#include <weft/backend/cuda/kernels/attention_tensor_backward.hpp>
#include <weft/backend/cuda/kernels/attention_tensor_backward_queries.hpp>
#include <weft/core/error.hpp>

namespace weft::gpu {

/// attention and attention_backward, over a queue of kernels.
template <class Queue>
struct attention_words {
  using queue = Queue;

  /// For the laws: on tensor cores weights and their gradients are rounded to T before they are multiplied with rows.
  static constexpr bool rounds_attention_weights = true;

  /// As cpu::attention.
  template <class T>
  static void attention(queue& q, const attention_shape& s, const T* queries, const T* k, const T* v, T* out,
                        accumulate_t<T>* sums) {
    check(s);
    const bool packed = s.head_dim % pack_size<T> == 0 && aligned_for_packs(queries, k, v, out);
    if constexpr (requires { attend_by_warpgroups(q, s, queries, k, v, out, sums); })  // of a GPU's queue
      if (packed && attend_by_warpgroups(q, s, queries, k, v, out, sums)) return;
    const bool done = on_tensor_cores<T>(s, packed, [&]<int D, bool Documents>() {
      return start_tensor(
          q, s, attention_tensor_kernel<T, D, Documents>{tensor_shape<D, Documents>(s), queries, k, v, out, sums});
    });
    if (done) return;
    const auto tile = attention_kernel<T>::choose_tile(s, q.block_memory());
    start(q, s, attention_kernel<T>{s, queries, k, v, out, sums, tile, packed});
  }
  /// As cpu::attention_backward. Takes scratch memory for a number a query and head.
  template <class T>
  static void attention_backward(queue& q, const attention_shape& s, const T* queries, const T* k, const T* v,
                                 const T* out, const accumulate_t<T>* sums, const T* dout, T* dq, bool add_dq, T* dk,
                                 bool add_dk, T* dv, bool add_dv) {
    using A = accumulate_t<T>;
    using of_keys = attention_keys_backward_kernel<T>;
    using of_queries = attention_queries_backward_kernel<T>;
    check(s);
    const int64 rows = s.batch * s.q_len * s.heads;
    A* const delta = static_cast<A*>(q.scratch(static_cast<std::size_t>(rows) * sizeof(A)));
    const bool packed = s.head_dim % pack_size<T> == 0 && aligned_for_packs(queries, k, v, out, dout, dq, dk, dv);
    const int64 at_once = Queue::block_threads / 8;
    q.start(std::min<int64>((rows + at_once - 1) / at_once, q.resident_blocks()), 0,
            attention_delta_kernel<T>{s.batch, s.q_len, s.heads, s.head_dim, out, dout, delta, packed});
    if constexpr (requires {
                    attend_backward_by_warpgroups(q, s, queries, k, v, sums, delta, dout, dq, add_dq, dk, add_dk, dv,
                                                  add_dv);
                  })  // of a GPU's queue
      if (packed &&
          attend_backward_by_warpgroups(q, s, queries, k, v, sums, delta, dout, dq, add_dq, dk, add_dk, dv, add_dv))
        return;
    const bool done = on_tensor_cores<T>(s, packed, [&]<int D, bool Documents>() {
      const attention_tensor_gradient<T, D, Documents> from{
          tensor_shape<D, Documents>(s), queries, k, v, dout, sums, delta};
      return start_tensor(q, s, attention_tensor_keys_backward_kernel<T, D, Documents>{from, dk, add_dk, dv, add_dv},
                          attention_tensor_queries_backward_kernel<T, D, Documents>{from, dq, add_dq});
    });
    if (done) return;
    attention_gradient<T> from{s, queries, k, v, dout, sums, delta, of_keys::choose_tile(s, q.block_memory()), packed};
    if (s.documents)
      start(q, s, attention_keys_backward_kernel<T, true>{from, dk, add_dk, dv, add_dv});
    else
      start(q, s, of_keys{from, dk, add_dk, dv, add_dv});
    from.tile = of_queries::choose_tile(s, q.block_memory());
    start(q, s, of_queries{from, dq, add_dq});
  }

 private:
  static constexpr int64 most_blocks = 1 << 20;  // where there are more tiles, a block takes several

  /// f<head_dim, whether there are documents>() for what the tensor cores' kernels take, and whether it started them;
  /// false, and nothing done, for other types and sizes.
  template <class T, class F>
  static bool on_tensor_cores(const attention_shape& s, bool packed, F f) {
    if constexpr (sizeof(T) == 2) {
      packed = packed && tensor_shape<64>::fits(s);
      const auto of = [&]<int D>() {
        return s.documents ? f.template operator()<D, true>() : f.template operator()<D, false>();
      };
      if (packed && s.head_dim == 64) return of.template operator()<64>();
      if (packed && s.head_dim == 96) return of.template operator()<96>();
      if (packed && s.head_dim == 128) return of.template operator()<128>();
      if (packed && s.head_dim == 256) return of.template operator()<256>();
    }
    return false;
  }
  static void check(const attention_shape& s) {
    require(s.kv_heads > 0 && s.heads % s.kv_heads == 0,
            "attention: heads must be a multiple of kv_heads, but they are ", s.heads, " and ", s.kv_heads, ".");
  }
  /// False, and nothing done, where one of them needs more shared memory than a block of this device may have.
  template <class... Kernels>
  static bool start_tensor(queue& q, const attention_shape& s, const Kernels&... kernels) {
    constexpr std::size_t most = std::max({Kernels::shared_bytes(Kernels::threads)...});
    static_assert(most <= tensor_shared_memory);
    if (most > q.block_memory()) return false;
    (q.start(std::min(kernels.tiles(s, Kernels::threads), most_blocks), Kernels::shared_bytes(Kernels::threads),
             kernels),
     ...);
    return true;
  }
  template <class Kernel>
  static void start(queue& q, const attention_shape& s, const Kernel& kernel) {
    require(kernel.shared_bytes() <= q.block_memory(), "attention: a head_dim of ", s.head_dim, " needs ",
            kernel.shared_bytes(), " bytes of a block's shared memory, of which there are ", q.block_memory(), ".");
    q.start(std::min(kernel.tiles(), most_blocks), kernel.shared_bytes(), kernel);
  }
};

}  // namespace weft::gpu
