// Tensor maps, and the driver's functions that a program asks the run-time library for. Invariant: what CUDA's
// documentation doesn't allow of a tensor map is refused, as the driver does.
#include "../tensor_map.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>

#include "error.hpp"

namespace {

int bytes_of(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
      return 4;
    default:
      return 0;
  }
}

CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t dimensions, void* base,
                      const cuuint64_t* size, const cuuint64_t* stride, const cuuint32_t* box, const cuuint32_t* step,
                      CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                      CUtensorMapFloatOOBfill fill) {
  device::tensor_map m;
  m.mark = device::tensor_map::is_one;
  const int element = bytes_of(type);
  if (!map || reinterpret_cast<std::uintptr_t>(map) % 64 || !element || dimensions < 1 || dimensions > 5 || !base ||
      reinterpret_cast<std::uintptr_t>(base) % 16)
    return CUDA_ERROR_INVALID_VALUE;
  // What the device on the host doesn't know.
  if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
    return CUDA_ERROR_NOT_SUPPORTED;
  m.dimensions = static_cast<std::uint8_t>(dimensions), m.element_bytes = static_cast<std::uint8_t>(element);
  m.base = reinterpret_cast<std::uint64_t>(base);
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_NONE:
      break;
    case CU_TENSOR_MAP_SWIZZLE_32B:
      m.swizzle_bytes = 32;
      break;
    case CU_TENSOR_MAP_SWIZZLE_64B:
      m.swizzle_bytes = 64;
      break;
    case CU_TENSOR_MAP_SWIZZLE_128B:
      m.swizzle_bytes = 128;
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  m.stride[0] = static_cast<std::uint64_t>(element);
  for (cuuint32_t d = 0; d < dimensions; ++d) {
    if (size[d] < 1 || size[d] > std::uint64_t{1} << 32 || box[d] < 1 || box[d] > 256) return CUDA_ERROR_INVALID_VALUE;
    if (step[d] != 1) return step[d] < 1 || step[d] > 8 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    m.size[d] = static_cast<std::uint32_t>(size[d] - 1), m.box[d] = box[d];
    if (d == 0) continue;
    m.stride[d] = stride[d - 1];
    if (m.stride[d] % 16 || m.stride[d] >= std::uint64_t{1} << 40) return CUDA_ERROR_INVALID_VALUE;
  }
  const std::uint32_t row = box[0] * static_cast<std::uint32_t>(element);
  if (row % 16 || (m.swizzle_bytes && row > m.swizzle_bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (m.swizzle_bytes && row != m.swizzle_bytes) return CUDA_ERROR_NOT_SUPPORTED;
  std::memset(map, 0, sizeof *map);
  std::memcpy(map, &m, sizeof m);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** at, unsigned version,
                                                        unsigned long long flags,
                                                        cudaDriverEntryPointQueryResult* status) {
  if (!name || !at || flags != cudaEnableDefault) return device::remembered(cudaErrorInvalidValue);
  const bool known = std::strcmp(name, "cuTensorMapEncodeTiled") == 0, there = known && version >= 12000;
  *at = there ? reinterpret_cast<void*>(encode_tiled) : nullptr;
  if (status)
    *status = there   ? cudaDriverEntryPointSuccess
              : known ? cudaDriverEntryPointVersionNotSufficent
                      : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
