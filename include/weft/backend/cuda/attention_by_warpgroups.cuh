// Where attention's forward goes to the kernel for sm_90a. Invariant: the device, the program's code for it and the
// driver are asked, so that whoever compiled for another architecture, or runs on another GPU, gets the other kernels.
#pragma once

#include <algorithm>

#include <weft/backend/cuda/kernels/attention_warpgroup.cuh>
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

/// As attention_words::attention, on a queue of a GPU whose arrays are aligned to 16 bytes; false, and nothing done,
/// for what attention_warpgroup_kernel doesn't take, and where it can't run.
template <class Queue, class T>
bool attend_by_warpgroups(Queue& q, const attention_shape& s, const T* queries, const T* k, const T* v, T* out,
                          accumulate_t<T>* sums) {
  if constexpr (sizeof(T) == 2) {
    const auto start = [&]<int D>() {
      using kernel = attention_warpgroup_kernel<T, D>;
      if (kernel::shared_bytes() > q.block_memory() || !compiled_for_warpgroups<kernel>()) return false;
      kernel body{{}, {}, {}, tensor_shape<D>(s), out, sums};
      if (!map_tiles(body.q, queries, s.batch, s.q_len, s.heads, D, kernel::queries) ||
          !map_tiles(body.k, k, s.batch, s.kv_len, s.kv_heads, D, kernel::keys) ||
          !map_tiles(body.v, v, s.batch, s.kv_len, s.kv_heads, D, kernel::keys))
        return false;
      q.start(std::min<int64>(kernel::tiles(s), 1 << 20), kernel::shared_bytes(), body);
      return true;
    };
    if (!q.has_warpgroups() || s.documents || !tensor_shape<64>::fits(s)) return false;
    if (s.head_dim == 64) return start.template operator()<64>();
    if (s.head_dim == 128) return start.template operator()<128>();
  }
  return false;
}

}  // namespace weft::gpu
