// Functions that run on a host and on a device alike. Invariant: what is marked calls only what is marked, or
// constexpr.
#pragma once

#include <weft/core/requirements.hpp>

/// Marks a function that nvcc compiles for both; other compilers see nothing.
#if defined(__CUDACC__)
#define WEFT_ANYWHERE __host__ __device__
#else
#define WEFT_ANYWHERE
#endif
/// Marks what kernels of a device call: nvcc compiles it for the device, other compilers for the host.
#if defined(__CUDACC__)
#define WEFT_ON_DEVICE __device__
#else
#define WEFT_ON_DEVICE
#endif
