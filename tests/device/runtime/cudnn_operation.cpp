// What each operation of a graph computes, by plain loops, from cuDNN's documentation. Invariant: as cudnn_graph.hpp's.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "../numbers.hpp"
#include "cudnn_graph.hpp"

namespace device::dnn {

float held(cudnnDataType_t type, float x) {
  switch (type) {
    case CUDNN_DATA_BFLOAT16:
      return float_of_bf16(bf16_of(x));
    case CUDNN_DATA_HALF:
      return float_of_f16(f16_of(x));
    case CUDNN_DATA_INT32:
      return std::trunc(x);
    case CUDNN_DATA_BOOLEAN:
      return x != 0 ? 1.0f : 0.0f;
    default:
      return x;
  }
}

namespace {

using extents = std::vector<std::int64_t>;

// Of each element of `all`, the place of its counterpart in a contiguous array of extents `part`, each of which divides
// that of `all`: neighbours along a dimension share one.
std::vector<std::int64_t> places(const extents& part, const extents& all) {
  tensor of{};
  of.extents = all, of.strides.assign(all.size(), 1);
  std::vector<std::int64_t> steps(all.size()), at(all.size()), found;
  std::int64_t step = 1;
  for (std::size_t d = all.size(); d-- > 0; step *= part[d]) steps[d] = step;
  found.reserve(static_cast<std::size_t>(of.elements()));
  for (std::int64_t i = 0, n = of.elements(); i < n; ++i) {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < all.size(); ++d) place += at[d] / (all[d] / part[d]) * steps[d];
    found.push_back(place);
    for (std::size_t d = all.size(); d-- > 0 && ++at[d] == all[d];) at[d] = 0;
  }
  return found;
}

float applied(cudnnPointwiseMode_t mode, float x, float b, float t) {
  switch (mode) {
    case CUDNN_POINTWISE_IDENTITY:
      return x;
    case CUDNN_POINTWISE_ADD:
      return x + b;
    case CUDNN_POINTWISE_SUB:
      return x - b;
    case CUDNN_POINTWISE_MUL:
      return x * b;
    case CUDNN_POINTWISE_DIV:
      return x / b;
    case CUDNN_POINTWISE_MAX:
      return std::max(x, b);
    case CUDNN_POINTWISE_EXP:
      return std::exp(x);
    case CUDNN_POINTWISE_LOG:
      return std::log(x);
    case CUDNN_POINTWISE_CMP_GE:
      return x >= b;
    case CUDNN_POINTWISE_CMP_GT:
      return x > b;
    case CUDNN_POINTWISE_CMP_LE:
      return x <= b;
    case CUDNN_POINTWISE_CMP_LT:
      return x < b;
    case CUDNN_POINTWISE_LOGICAL_AND:
      return x != 0 && b != 0;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return t != 0 ? x : b;
    default:
      return std::numeric_limits<float>::quiet_NaN();
  }
}

numbers pointwise(const graph& g, const operation& o, const std::map<std::int64_t, numbers>& values) {
  const tensor& to = g.tensors.at(o.to);
  numbers y(static_cast<std::size_t>(to.elements()));
  if (o.mode == CUDNN_POINTWISE_GEN_INDEX) {
    const auto axis = static_cast<std::size_t>(o.axis);
    std::int64_t inner = 1;
    for (std::size_t d = axis + 1; d < to.extents.size(); ++d) inner *= to.extents[d];
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = static_cast<float>(static_cast<std::int64_t>(i) / inner % to.extents[axis]);
    return y;
  }
  const numbers* operands[3] = {};
  std::vector<std::int64_t> at[3];
  for (std::size_t i = 0; i < o.from.size(); ++i) {
    const tensor& from = g.tensors.at(o.from[i]);
    operands[i] = &values.at(from.id);
    at[i] = places(from.elements() == 1 ? extents(to.extents.size(), 1) : from.extents, to.extents);
  }
  const auto operand = [&](int n, std::size_t i) {
    return operands[n] ? (*operands[n])[static_cast<std::size_t>(at[n][i])] : 0.0f;
  };
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = applied(o.mode, operand(0, i), operand(1, i), operand(2, i));
  return y;
}

numbers reduced(const graph& g, const operation& o, const numbers& x) {
  const tensor &from = g.tensors.at(o.from[0]), &to = g.tensors.at(o.to);
  const bool adds = o.reduction == CUDNN_REDUCE_TENSOR_ADD;
  std::vector<double> y(static_cast<std::size_t>(to.elements()), adds ? 0 : -std::numeric_limits<double>::infinity());
  const auto at = places(to.extents, from.extents);
  for (std::size_t i = 0; i < x.size(); ++i) {
    double& sum = y[static_cast<std::size_t>(at[i])];
    sum = adds ? sum + static_cast<double>(x[i]) : std::max(sum, static_cast<double>(x[i]));
  }
  return {y.begin(), y.end()};
}

// The same memory, read by other strides.
numbers reshaped(const graph& g, const operation& o, const numbers& x) {
  const tensor &from = g.tensors.at(o.from[0]), &to = g.tensors.at(o.to);
  numbers memory(static_cast<std::size_t>(from.span())), y;
  std::size_t i = 0;
  from.each([&](std::int64_t place) { memory[static_cast<std::size_t>(place)] = x[i++]; });
  to.each([&](std::int64_t place) { y.push_back(memory[static_cast<std::size_t>(place)]); });
  return y;
}

// What products are of: operands that an operation made in float are rounded to that as they are read.
cudnnDataType_t multiplied(const graph& g) {
  for (const auto& [id, t] : g.tensors)
    if (t.type == CUDNN_DATA_BFLOAT16 || t.type == CUDNN_DATA_HALF) return t.type;
  return CUDNN_DATA_FLOAT;
}

numbers product(const graph& g, const operation& o, numbers a, numbers b, std::uint64_t drawn) {
  const cudnnDataType_t type = multiplied(g);
  for (numbers* const operand : {&a, &b})
    for (float& x : *operand) x = held(type, x);
  const tensor &ta = g.tensors.at(o.from[0]), &tb = g.tensors.at(o.from[1]), &tc = g.tensors.at(o.to);
  const std::size_t dims = tc.extents.size();
  const auto m = static_cast<std::size_t>(tc.extents[dims - 2]), n = static_cast<std::size_t>(tc.extents[dims - 1]),
             k = static_cast<std::size_t>(ta.extents[dims - 1]);
  const auto outer = [&](const tensor& t) { return extents(t.extents.begin(), t.extents.end() - 2); };
  const auto at_a = places(outer(ta), outer(tc)), at_b = places(outer(tb), outer(tc));
  // Sums in float memory are of several blocks, each of which adds its own when it comes to that: in any order.
  const bool by_blocks = !tc.is_virtual && tc.type == CUDNN_DATA_FLOAT;
  std::vector<std::size_t> order(k);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (by_blocks) std::shuffle(order.begin(), order.end(), std::mt19937_64(drawn));
  numbers c(at_a.size() * m * n);
  std::vector<double> sums(n);
  for (std::size_t z = 0; z < at_a.size(); ++z)
    for (std::size_t i = 0; i < m; ++i) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (const std::size_t j : order) {
        const double left = static_cast<double>(a[(static_cast<std::size_t>(at_a[z]) * m + i) * k + j]);
        const float* const right = &b[(static_cast<std::size_t>(at_b[z]) * k + j) * n];
        for (std::size_t x = 0; x < n; ++x) {
          sums[x] += left * static_cast<double>(right[x]);
          if (by_blocks) sums[x] = static_cast<double>(static_cast<float>(sums[x]));
        }
      }
      for (std::size_t x = 0; x < n; ++x) c[(z * m + i) * n + x] = static_cast<float>(sums[x]);
    }
  return c;
}

}  // namespace

numbers computed(const graph& g, const operation& o, const std::map<std::int64_t, numbers>& values,
                 std::uint64_t drawn) {
  const auto from = [&](std::size_t i) -> const numbers& { return values.at(o.from[i]); };
  numbers y;
  switch (o.kind) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      y = product(g, o, from(0), from(1), drawn);
      break;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      y = reduced(g, o, from(0));
      break;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      y = reshaped(g, o, from(0));
      break;
    default:
      y = pointwise(g, o, values);
  }
  for (float& x : y) x = held(g.tensors.at(o.to).type, x);
  return y;
}

}  // namespace device::dnn
