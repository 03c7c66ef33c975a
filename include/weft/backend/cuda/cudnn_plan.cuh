// What cuDNN is asked of attention: a plan for a shape, and to run it. Invariant: what cuDNN refuses is a plan without
// a graph; any other answer than success throws.
#pragma once

#include <array>
#include <cstdint>
#include <cudnn.h>
#include <memory>

#include <weft/backend/concept.hpp>
#include <weft/backend/cuda/error.cuh>
#include <weft/core/dtype.hpp>

namespace cudnn_frontend::graph {
class Graph;
}

namespace weft::gpu {

inline void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  fail(call, " failed: ", cudnnGetErrorString(status), " (cuDNN status ", static_cast<int>(status), ")");
}

/// No plan takes more workspace, in bytes: a deterministic backward wants 2 for each score of a query and a key.
inline constexpr std::int64_t most_cudnn_workspace = std::int64_t{1} << 30;

/// A stream keeps so many plans, a hundred KiB of the host's memory each; other shapes go to other kernels.
inline constexpr std::size_t most_cudnn_plans = 256;

/// A graph that cuDNN runs, and what it needs beside its tensors, in bytes; null where cuDNN takes no such shape.
struct cudnn_plan {
  std::shared_ptr<cudnn_frontend::graph::Graph> graph;
  std::size_t workspace = 0;
};

namespace detail {

/// What a graph calls its tensors.
enum cudnn_tensor : std::int64_t { of_queries = 1, of_keys, of_values, of_out, of_sums, of_dout, of_dq, of_dk, of_dv };
/// Where they lie, each at its number.
using cudnn_arrays = std::array<const void*, of_dv + 1>;

/// Of queries, keys and values, out and sums [batch, heads, q_len], the log of the sum of exponentials.
cudnn_plan plan_attention(cudnnHandle_t, const attention_shape&, dtype);
/// Of those and dout: dq, dk and dv.
cudnn_plan plan_attention_backward(cudnnHandle_t, const attention_shape&, dtype);
/// On the handle's stream.
void run(const cudnn_plan&, cudnnHandle_t, const attention_shape&, const cudnn_arrays&, void* workspace);

}  // namespace detail

}  // namespace weft::gpu

#ifndef __CUDA_ARCH__  // nvcc's passes for a device needn't read cudnn-frontend
#include <weft/backend/cuda/cudnn_graph.cuh>
#endif
