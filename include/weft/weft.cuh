// Weft on CUDA devices, in one include, compiled by nvcc: all of weft.hpp, and cuda_backend for a strategy to name.
#pragma once

#include <weft/core/requirements.hpp>  // before any standard header

#include <weft/backend/cuda.cuh>
#include <weft/weft.hpp>
