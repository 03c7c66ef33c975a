// An operation graph as cuDNN reads it, and what its operations compute, each by itself. Invariant: nothing here knows
// what the operations are together.
#pragma once

#include <functional>

#include "cudnn_descriptor.hpp"

namespace device::dnn {

struct tensor {
  std::int64_t id = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<std::int64_t> extents{}, strides{};
  std::int64_t alignment = 1;
  bool is_virtual = false, by_value = false;

  std::int64_t elements() const;
  /// Elements from the first to behind the last, as they lie in memory.
  std::int64_t span() const;
  /// f(place in memory) for each element, the last dimension fastest.
  void each(const std::function<void(std::int64_t)>& f) const;
};

struct operation {
  cudnnBackendDescriptorType_t kind;
  cudnnPointwiseMode_t mode = CUDNN_POINTWISE_IDENTITY;
  cudnnReduceTensorOp_t reduction = CUDNN_REDUCE_TENSOR_ADD;
  std::int64_t axis = -1;
  std::vector<std::int64_t> from{};  // tensors: A and B; X, B and T
  std::int64_t to = 0;
};

struct graph {
  cudnnHandle_t handle = nullptr;
  std::map<std::int64_t, tensor> tensors{};
  std::vector<operation> operations{};  // each behind those that it reads
};

/// Throws std::string, which says what is wrong, for what cuDNN's documentation forbids.
graph read_graph(const descriptor& d);
/// Why an engine for graphs of matrix products that run as one kernel may refuse this one; empty: it takes it.
std::string refused(const graph& g);

/// The elements of a tensor, the last dimension fastest, each as its type holds it.
using numbers = std::vector<float>;
/// As this type holds it.
float held(cudnnDataType_t type, float x);
/// What an operation writes. `drawn`: of a product that cuDNN adds up in no fixed order, which.
numbers computed(const graph& g, const operation& o, const std::map<std::int64_t, numbers>& values,
                 std::uint64_t drawn);

}  // namespace device::dnn
