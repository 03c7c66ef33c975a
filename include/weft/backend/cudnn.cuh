// The CUDA backend with cuDNN's attention, for a strategy to name. Needs cuDNN 9.16 or later and NVIDIA's headers
// cudnn-frontend (CMake: weft::cudnn); nobody else includes or links either. Invariant: what cuDNN doesn't take,
// cuda_backend computes.
#pragma once

#include <weft/backend/cuda.cuh>
#include <weft/backend/cuda/cudnn_attention.cuh>

namespace weft {

/// As cuda_backend, but attention and its backward in bf16 and fp16 are cuDNN's where it takes them: heads of a width
/// that 8 divides, up to 256, several queries or one of one key, arrays aligned to 16 bytes, causal or not, a window,
/// groups of heads; no documents, and no causal queries before the first key, which see none; the first 256 shapes of a
/// queue. Of those cuDNN may refuse sizes and GPUs: these, and all else, are cuda_backend's. Same bits twice: the
/// backward is cuDNN's deterministic algorithm. Throws weft::failure with the shape and cuDNN's words where a call of
/// it fails.
struct cudnn_backend : cuda_backend {
  /// For the laws: cuDNN gives the log of the sum of exponentials as one number. sums are that and 0; their sum is all
  /// that a backward reads.
  static constexpr bool joins_attention_sums = true;

  /// How many calls of attention and its backward cuDNN took on this queue, and how many it left to cuda_backend.
  static const gpu::cudnn_counts& counts(queue& q) { return q.library<gpu::cudnn_attention>().counts(); }

  template <class T>
  static void attention(queue& q, const attention_shape& s, const T* queries, const T* k, const T* v, T* out,
                        accumulate_t<T>* sums) {
    if (!q.library<gpu::cudnn_attention>().attend(q, s, queries, k, v, out, sums))
      cuda_backend::attention(q, s, queries, k, v, out, sums);
  }
  template <class T>
  static void attention_backward(queue& q, const attention_shape& s, const T* queries, const T* k, const T* v,
                                 const T* out, const accumulate_t<T>* sums, const T* dout, T* dq, bool add_dq, T* dk,
                                 bool add_dk, T* dv, bool add_dv) {
    if (!q.library<gpu::cudnn_attention>().attend_backward(q, s, queries, k, v, out, sums, dout, dq, add_dq, dk, add_dk,
                                                           dv, add_dv))
      cuda_backend::attention_backward(q, s, queries, k, v, out, sums, dout, dq, add_dq, dk, add_dk, dv, add_dv);
  }
};

}  // namespace weft
