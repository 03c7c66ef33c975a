// The backend concept: the kernels that operators are made of, over local memory. An operator names `Backend::f`, never
// a backend. Invariant: nothing here knows of dimensions' names, placements or ranks.
#pragma once

#include <weft/tensor/local_array.hpp>

namespace weft {

/// Element-wise functions of one value. `gelu` is the tanh form, `gelu_exact` the one with erf.
enum class unary : std::uint8_t {
  identity,
  negate,
  exp,
  log,
  sqrt,
  rsqrt,
  reciprocal,
  square,
  abs,
  tanh,
  sigmoid,
  relu,
  silu,
  gelu,
  gelu_exact
};
enum class binary : std::uint8_t { add, subtract, multiply, divide, maximum, minimum };
enum class reduce : std::uint8_t { sum, max, min };

/// Sizes of a batched matrix product c[b,i,j] = sum_k a[b,i,k] b[b,k,j].
struct matmul_shape {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
};
/// Distances between rows, columns and matrices of a batch, in elements.
struct strides {
  std::int64_t row = 0, column = 1, batch = 0;
};

/// Sizes of attention: q and out [batch, q_len, heads, head_dim]; k and v [batch, kv_len, kv_heads, head_dim].
/// Causal: query i sees keys j <= i + (kv_len - q_len).
struct attention_shape {
  std::int64_t batch, q_len, kv_len, heads, kv_heads, head_dim;
  double scale;
  bool causal;
};

/// One step of AdamW with decoupled weight decay (Loshchilov & Hutter 2019). `bias1 = 1 - beta1^t`, `bias2 = 1 -
/// beta2^t`; every gradient is multiplied by `grad_scale` first (clipping, the mean over tokens, loss scaling).
struct adamw_step {
  double lr, beta1, beta2, eps, weight_decay, bias1, bias2, grad_scale;
};

/// What one pass over an array says of it. squares (their sum), lowest and highest are over its finite elements; where
/// there are none, 0, infinity and -infinity.
struct array_statistics {
  double squares = 0, lowest = __builtin_inf(), highest = -__builtin_inf();
  std::int64_t elements = 0, not_finite = 0;

  /// Of two arrays together.
  void join(const array_statistics& other) {
    squares += other.squares;
    lowest = other.lowest < lowest ? other.lowest : lowest;
    highest = other.highest > highest ? other.highest : highest;
    elements += other.elements;
    not_finite += other.not_finite;
  }
  /// Of the array multiplied by a number above 0.
  void scale(double by) { squares *= by * by, lowest *= by, highest *= by; }
};

/// Where a rank's slice lies in the whole tensor, for each dimension: its extent, the whole's, its first index there,
/// and how many of its elements are the tensor's. Those behind them are padding, which holds anything.
struct placed_slice {
  int ndim = 0;
  std::int64_t local[max_ndim] = {}, global[max_ndim] = {}, first[max_ndim] = {}, valid[max_ndim] = {};

  /// The sizes of the slice without its padding.
  shape valid_part() const {
    shape out;
    for (int d = 0; d < ndim; ++d) out.push_back(valid[d]);
    return out;
  }
};
/// Which elements dropout keeps: those at whose global, row-major index the random word of (seed, stream) is at least
/// rate * 2^32.
struct dropout_mask {
  double rate = 0;
  std::uint64_t seed = 0, stream = 0;
};

}  // namespace weft
