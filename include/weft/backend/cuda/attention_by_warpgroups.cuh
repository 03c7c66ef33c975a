// Where attention and its backward go to the kernels for sm_90a. Invariant: the device, the program's code for it and
// the driver are asked, so that whoever compiled for another architecture, or runs on another GPU, gets the other
// kernels.
#pragma once

#include <algorithm>

#include <weft/backend/cuda/kernels/attention_warpgroup.cuh>
#include <weft/backend/cuda/kernels/attention_warpgroup_backward.cuh>
#include <weft/backend/cuda/kernels/attention_warpgroup_backward_queries.cuh>
#include <weft/backend/cuda/launch.cuh>
#include <weft/backend/cuda/tensor_map.cuh>

namespace weft::gpu {

/// Whether the code that this device runs of a kernel is the one for sm_90a, which alone has shared memory of its own.
template <class Kernel>
bool compiled_for_warpgroups() {
  cudaFuncAttributes about{};
  if (cudaFuncGetAttributes(&about, run_on_device<Kernel>) == cudaSuccess) return about.sharedSizeBytes > 0;
  cudaGetLastError();
  return false;
}

/// f<head_dim, whether there are documents>() for what the kernels for sm_90a take, on a queue of a GPU; false for all
/// else.
template <class Queue, class F>
bool for_warpgroups(const Queue& q, const attention_shape& s, F f) {
  if (!q.has_warpgroups() || !tensor_shape<64>::fits(s)) return false;
  const auto of = [&]<int D>() {
    return s.documents ? f.template operator()<D, true>() : f.template operator()<D, false>();
  };
  if (s.head_dim == 64) return of.template operator()<64>();
  if (s.head_dim == 128) return of.template operator()<128>();
  return false;
}
/// Whether a kernel can run, and has its maps of q, k and v.
template <class Kernel, class Queue, class T>
bool ready_for_warpgroups(const Queue& q, Kernel& kernel, const attention_shape& s, const T* queries, const T* k,
                          const T* v) {
  return Kernel::shared_bytes() <= q.block_memory() && compiled_for_warpgroups<Kernel>() &&
         map_tiles(kernel.q, queries, s.batch, s.q_len, s.heads, s.head_dim, Kernel::queries) &&
         map_tiles(kernel.k, k, s.batch, s.kv_len, s.kv_heads, s.head_dim, Kernel::keys) &&
         map_tiles(kernel.v, v, s.batch, s.kv_len, s.kv_heads, s.head_dim, Kernel::keys);
}
template <class Queue, class Kernel>
void start_for_warpgroups(Queue& q, const attention_shape& s, const Kernel& kernel) {
  q.start(std::min<int64>(Kernel::tiles(s), 1 << 20), Kernel::shared_bytes(), kernel);
}

/// As attention_words::attention, on a queue of a GPU whose arrays are aligned to 16 bytes; false, and nothing done,
/// for what attention_warpgroup_kernel doesn't take, and where it can't run.
template <class Queue, class T>
bool attend_by_warpgroups(Queue& q, const attention_shape& s, const T* queries, const T* k, const T* v, T* out,
                          accumulate_t<T>* sums) {
  if constexpr (sizeof(T) == 2)
    return for_warpgroups(q, s, [&]<int D, bool Documents>() {
      attention_warpgroup_kernel<T, D, Documents> kernel{{}, {}, {}, tensor_shape<D, Documents>(s), out, sums};
      if (!ready_for_warpgroups(q, kernel, s, queries, k, v)) return false;
      start_for_warpgroups(q, s, kernel);
      return true;
    });
  return false;
}

/// As attention_words::attention_backward, once delta is made; false, and nothing done, as attend_by_warpgroups.
template <class Queue, class T>
bool attend_backward_by_warpgroups(Queue& q, const attention_shape& s, const T* queries, const T* k, const T* v,
                                   const accumulate_t<T>* sums, const accumulate_t<T>* delta, const T* dout, T* dq,
                                   bool add_dq, T* dk, bool add_dk, T* dv, bool add_dv) {
  if constexpr (sizeof(T) == 2)
    return for_warpgroups(q, s, [&]<int D, bool Documents>() {
      const attention_tensor_gradient<T, D, Documents> from{
          tensor_shape<D, Documents>(s), queries, k, v, dout, sums, delta};
      attention_warpgroup_keys_backward_kernel<T, D, Documents> of_keys{{}, {}, {}, {}, from, dk, add_dk, dv, add_dv};
      attention_warpgroup_queries_backward_kernel<T, D, Documents> of_queries{{}, {}, {}, {}, from, dq, add_dq};
      const auto ready = [&](auto& kernel) {
        return ready_for_warpgroups(q, kernel, s, queries, k, v) &&
               map_tiles(kernel.dout, dout, s.batch, s.q_len, s.heads, s.head_dim, kernel.queries);
      };
      if (!ready(of_keys) || !ready(of_queries)) return false;
      start_for_warpgroups(q, s, of_keys);
      start_for_warpgroups(q, s, of_queries);
      return true;
    });
  return false;
}

}  // namespace weft::gpu
