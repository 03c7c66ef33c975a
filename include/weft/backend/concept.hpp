// The backend concept: the kernels that operators are made of, over local memory. An operator names `Backend::f`, never
// a backend. Invariant: nothing here knows of dimensions' names, placements or ranks.
#pragma once

#include <weft/backend/decay_ranges.hpp>
#include <weft/core/finite.hpp>
#include <weft/core/queue.hpp>
#include <weft/memory/local_array.hpp>

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
/// What errors call them.
constexpr const char* name_of(unary f) {
  constexpr const char* names[] = {"identity", "negate", "exp",     "log",  "sqrt", "rsqrt", "reciprocal", "square",
                                   "abs",      "tanh",   "sigmoid", "relu", "silu", "gelu",  "gelu_exact"};
  return names[static_cast<int>(f)];
}
constexpr const char* name_of(binary f) {
  constexpr const char* names[] = {"operator+", "operator-", "operator*", "operator/", "maximum", "minimum"};
  return names[static_cast<int>(f)];
}
enum class reduce : std::uint8_t { sum, max, min };

/// Sizes of a batched matrix product c[b,i,j] = sum_k a[b,i,k] b[b,k,j].
struct matmul_shape {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
};
/// Distances between rows, columns and matrices of a batch, in elements.
struct strides {
  std::int64_t row = 0, column = 1, batch = 0;
};
/// What a product does with its sums before it stores them, each in c's type: adds bias [n] to every row; and where
/// `before_gelu` isn't null, writes what it has then there, as c lies, and stores gelu of it.
struct matmul_epilogue {
  const void* bias = nullptr;
  void* before_gelu = nullptr;
};

/// Sizes of attention: q and out [batch, q_len, heads, head_dim]; k and v [batch, kv_len, kv_heads, head_dim].
/// Causal: query i sees keys j <= i + (kv_len - q_len), and of those the last `window` where that isn't 0, and none
/// before documents[b, i] where that isn't null.
struct attention_shape {
  std::int64_t batch, q_len, kv_len, heads, kv_heads, head_dim;
  double scale;
  bool causal;
  std::int64_t window = 0;
  /// [batch, q_len] in the backend's memory: where the document of each query begins. Along a row they never fall.
  const std::int32_t* documents = nullptr;

  /// That of batch entry b alone, which is its entry 0.
  constexpr attention_shape of_row(std::int64_t b) const {
    attention_shape s = *this;
    if (documents) s.documents += b * q_len;
    return s;
  }
  /// The keys that query i of batch entry b sees: first_key(i, b) ... end_key(i) - 1. Its own it sees, whatever
  /// `documents` says.
  constexpr std::int64_t end_key(std::int64_t i) const {
    const std::int64_t end = causal ? i + kv_len - q_len + 1 : kv_len;
    return end < 0 ? 0 : end > kv_len ? kv_len : end;
  }
  constexpr std::int64_t first_key(std::int64_t i, std::int64_t b = 0) const {
    const std::int64_t first = first_in_window(i);
    if (!documents) return first;
    const std::int64_t begin = documents[b * q_len + (i < q_len ? i : q_len - 1)], last = end_key(i) - 1;
    return begin <= first ? first : begin < last ? begin : last;
  }
  /// The first whatever its document.
  constexpr std::int64_t first_in_window(std::int64_t i) const {
    return causal && window > 0 && end_key(i) > window ? end_key(i) - window : 0;
  }
};

/// A number that a kernel is given: itself, or where it lies in the backend's memory, from which the kernel takes it
/// when it runs. A number in memory that is NaN makes the kernel leave its outputs as they are: so a step that is
/// decided on a device is taken or not without the host. What a host gives is a number, NaN too.
class kernel_number {
 public:
  kernel_number(double number = 1) : number_(number) {}
  /// What lies at `where` by the time that a kernel runs.
  static kernel_number in_memory(const double* where) { return {1, where, false}; }
  /// `number`, for a kernel that leaves its outputs as they are where this one does.
  kernel_number gate(double number) const { return {number, where_, true}; }

  bool lies_in_memory() const { return where_ != nullptr; }
  /// For kernels: whether they write, and then the number. For the host where it doesn't lie in memory.
  constexpr bool writes() const { return !where_ || !detail::is_nan(*where_); }
  constexpr double value() const { return where_ && !gates_ ? *where_ : number_; }
  const double* where() const { return where_; }

 private:
  kernel_number(double number, const double* where, bool gates) : number_(number), where_(where), gates_(gates) {}

  double number_;
  const double* where_ = nullptr;
  bool gates_ = false;  // the number is number_, and what lies there says only whether it is written
};

namespace detail {
/// `count` numbers that lie in the backend's memory: waits for the queue.
template <class Backend>
void read_numbers(typename Backend::queue& queue, const double* from, double* to, std::int64_t count) {
  Backend::download(queue, from, to, count * static_cast<std::int64_t>(sizeof(double)));
}
/// The same of a kernel's number, wherever it is.
template <class Backend>
double number_on_host(typename Backend::queue& queue, const kernel_number& n) {
  if (!n.lies_in_memory()) return n.value();
  double number = 0;
  read_numbers<Backend>(queue, n.where(), &number, 1);
  return number;
}
}  // namespace detail

/// One step of AdamW with decoupled weight decay (Loshchilov & Hutter 2019). `bias1 = 1 - beta1^t`, `bias2 = 1 -
/// beta2^t`; every gradient is multiplied by `grad_scale` first (clipping, the mean over tokens, loss scaling).
/// `weight_decay` is that of the elements to which it applies (decay_ranges).
struct adamw_step {
  double lr, beta1, beta2, eps, weight_decay, bias1, bias2;
  kernel_number grad_scale;
  std::int64_t number = 0;  // the step's, from 1, where moments are rounded stochastically
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

  /// Whether every index of a dimension lies here.
  constexpr bool is_whole(int d) const { return local[d] == global[d] && valid[d] == global[d]; }
  constexpr bool has_padding() const {
    for (int d = 0; d < ndim; ++d)
      if (valid[d] != local[d]) return true;
    return false;
  }
  /// The row-major index in the whole of the slice's element i, or -1 where that is padding.
  constexpr std::int64_t global_index(std::int64_t i) const {
    std::int64_t at[max_ndim] = {};
    for (int d = ndim - 1; d >= 0; --d) {
      const std::int64_t here = i % local[d];
      if (here >= valid[d]) return -1;
      at[d] = here + first[d];
      i /= local[d];
    }
    std::int64_t g = 0;
    for (int d = 0; d < ndim; ++d) g = g * global[d] + at[d];
    return g;
  }
  /// Calls f(i, the index in the whole of the slice's element from + i, or -1 in padding, n) for runs of n elements
  /// that are neighbours in the whole too; i + n <= count.
  template <class F>
  constexpr void runs(std::int64_t from, std::int64_t count, F&& f) const {
    std::int64_t line = 1, inside = 1;  // of the last dimension that isn't whole here, and those behind it
    for (int d = ndim - 1; d >= 0; --d) {
      inside = line * valid[d], line *= local[d];
      if (!is_whole(d)) break;
    }
    for (std::int64_t i = 0; i < count;) {
      const std::int64_t here = (from + i) % line, end = here < inside ? inside : line;
      const std::int64_t n = end - here < count - i ? end - here : count - i;
      f(i, here < inside ? global_index(from + i) : std::int64_t{-1}, n);
      i += n;
    }
  }
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
