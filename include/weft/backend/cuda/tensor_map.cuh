// Tensor maps, by which the tensor memory accelerator finds tiles: asked of the driver through the run-time library, so
// that a program links no driver. Invariant: null or false where there is no driver that knows them, never an error.
#pragma once

#include <cuda.h>

#include <weft/backend/cuda/device_block.cuh>
#include <weft/backend/cuda/kernels/tile_copy.cuh>

namespace weft::gpu {
namespace detail {

using encode_tiled = CUresult(CUDAAPI*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                        const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                                        CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
inline encode_tiled ask_for_encode_tiled() {
  void* at = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &at, 12000, cudaEnableDefault, &found);
#else
  const cudaError_t status = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &at, cudaEnableDefault, &found);
#endif
  if (status != cudaSuccess) cudaGetLastError();
  return status == cudaSuccess && found == cudaDriverEntryPointSuccess ? reinterpret_cast<encode_tiled>(at) : nullptr;
}

}  // namespace detail

/// A map of [batch, length, heads, width] numbers of 16 bits, in tiles of `rows` neighbours along `length` (256 at
/// most) and 64 columns of one head. False where there is none: `from` not a multiple of 16 bytes, or the width of 8.
template <class T>
bool map_tiles(CUtensorMap& map, const T* from, int64 batch, int64 length, int64 heads, int64 width, int rows) {
  static_assert(sizeof(T) == 2);
  static const detail::encode_tiled encode = detail::ask_for_encode_tiled();
  if (!encode) return false;
  const auto size = [](int64 n) { return static_cast<cuuint64_t>(n); };
  const cuuint64_t sizes[] = {size(width), size(heads), size(length), size(batch)};
  const cuuint64_t apart[] = {size(width * 2), size(heads * width * 2), size(length * heads * width * 2)};
  const cuuint32_t box[] = {tile_row_bytes / sizeof(T), 1, static_cast<cuuint32_t>(rows), 1}, each[] = {1, 1, 1, 1};
  return encode(&map, dtype_of<T> == dtype::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                4, const_cast<T*>(from), sizes, apart, box, each, CU_TENSOR_MAP_INTERLEAVE_NONE,
                CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace weft::gpu
