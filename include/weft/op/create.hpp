// Making tensors: constants, random numbers by global index, and numbers the caller has.
// Invariant: each rank makes only what it holds, and what it makes depends on global indices, never on the sharding.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <initializer_list>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <weft/core/finite.hpp>
#include <weft/core/random.hpp>
#include <weft/op/placed.hpp>
#include <weft/tensor/local_run.hpp>
#include <weft/tensor/replay.hpp>

namespace weft {
namespace detail {

inline constexpr std::int64_t most_elements = std::int64_t{1}
                                              << 58;  // so that bytes and padded extents are numbers too

WEFT_LINKED shape shape_from(std::initializer_list<std::int64_t> extents) {
  require(extents.size() <= max_ndim, "a tensor has at most 8 dimensions, not ", extents.size());
  shape s;
  const auto listed = [&] {
    std::string all;
    for (std::int64_t n : extents) all += (all.empty() ? "" : ", ") + std::to_string(n);
    return all;
  };
  for (std::int64_t n : extents) {
    require(n >= 1, "a tensor's extents are (", listed(), "), and each is at least 1: number ", s.ndim + 1, " is ", n);
    require(n <= most_elements / s.elements(), "a tensor of these extents, up to ", n, ", has more than 2^58 elements");
    s.push_back(n);
  }
  return s;
}

/// Memory for a tensor of these global extents, its content undefined.
template <any_tensor X>
X empty_tensor(context& ctx, const shape& global, memory category = memory::activations) {
  ctx.require_backend(&backend_id<typename X::backend>);
  return X(
      value{&ctx, global, ctx.make(dtype_of<typename X::element_type>, local_shape<X>(ctx, global), category), {}});
}

template <any_tensor X>
X new_tensor(context& ctx, const shape& global) {
  static_assert(
      !has_partial<layout_of<X>>,
      "weft: a new tensor can't be partial: make it whole and convert<partial<axis>> it, so that it is counted once");
  return empty_tensor<X>(ctx, global);
}

/// False for a backend that says so: nobody will read what is written there.
template <class Backend>
inline constexpr bool computes = true;
template <class Backend>
requires(!Backend::computes) inline constexpr bool computes<Backend> = false;

/// Calls write(T*) with where x's elements are to be written; where kernels may be at work, in memory of its own, from
/// which they go there in the queue's order.
template <class Backend, class T, class F>
void write_by_host(context& ctx, const local_array& x, F&& write) {
  if constexpr (Backend::host_memory) {
    write(x.as<T>());
  } else if constexpr (computes<Backend>) {
    if (ctx.lies_on_host(x.data)) return ctx.order().synchronize(), write(x.as<T>());
    std::vector<T> staged(static_cast<std::size_t>(x.elements()));
    write(staged.data());
    Backend::upload(ctx.queue<Backend>(), staged.data(), x.data, x.bytes());
  }
}

/// Writes f(global index) at every element that this rank holds, 0 in padding. Compiled once for all dimensions and
/// placements.
template <class Backend, class T, class F>
void write_elements(context& ctx, const local_array& x, const placed_slice& at, const F& f) {
  write_by_host<Backend, T>(ctx, x, [&](T* out) {
    each_element(at, [&](std::int64_t local, std::int64_t index) { out[local] = index < 0 ? T{} : f(index); });
    if (ctx.replay) ctx.replay->created(x, hash_bytes(out, static_cast<std::size_t>(x.bytes()), 1));
  });
}

/// Throws where a tensor of T can't hold the number.
template <class T>
void require_element(const char* what, double number) {
  if constexpr (!floating<T>) {
    using limits = std::numeric_limits<T>;
    constexpr double least = static_cast<double>(limits::min()), above = 2 * static_cast<double>(limits::max() / 2 + 1);
    require(number == std::trunc(number) && number >= least && number < above, what, ": ", number, " is no ",
            name_of(dtype_of<T>));
  }
}

/// f's numbers as elements. Throws where one is none of T's integers.
template <class T, class F>
struct as_elements {
  const F& f;
  T operator()(std::int64_t index) const {
    const auto number = f(index);
    if constexpr (std::is_integral_v<decltype(number)> && sizeof(number) == 8 && !floating<T>) {  // no double holds all
      require(std::in_range<T>(number), "generate: ", number, " is no ", name_of(dtype_of<T>));
      return static_cast<T>(number);
    } else {
      const auto wide = static_cast<double>(number);
      require_element<T>("generate", wide);
      return static_cast<T>(wide);
    }
  }
};

/// What uniform puts at a global index.
template <class T>
struct uniform_numbers {
  philox words;
  double low, high;
  double operator()(std::int64_t i) const {
    const double x = low + (high - low) * static_cast<double>(words.uniform(static_cast<std::uint64_t>(i)));
    const T rounded = static_cast<T>(x);
    return static_cast<double>(rounded) >= high && low < high ? static_cast<double>(just_below(rounded)) : x;
  }

 private:
  // The largest T below x.
  static T just_below(T x) {
    using bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                    std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
    const auto pattern = std::bit_cast<bits>(x);
    const bits sign = static_cast<bits>(bits{1} << (8 * sizeof(T) - 1));
    if ((pattern & ~sign) == 0) return std::bit_cast<T>(static_cast<bits>(sign + 1));
    return std::bit_cast<T>(static_cast<bits>(pattern & sign ? pattern + 1 : pattern - 1));
  }
};

}  // namespace detail

/// A tensor of type X with f(global index) at every element; the index counts row-major, from 0. `global`: its global
/// extents, outermost first; where the ranks of an axis don't divide one, each holds as much as the first, and the last
/// of them padding (zeros, here). Placement: any but partial, which is refused. Throws weft::failure when an extent is
/// below 1, and when f gives what is none of X's integers. Here and below.
template <any_tensor X, class F>
X generate(context& ctx, std::initializer_list<std::int64_t> global, F&& f) {
  using T = typename X::element_type;
  const X x = detail::new_tensor<X>(ctx, detail::shape_from(global));
  using numbers = detail::as_elements<T, std::remove_reference_t<F>>;
  detail::write_elements<typename X::backend, T>(ctx, untyped(x).data, detail::placed(x), numbers{f});
  return x;
}

/// `number` at every element. Throws weft::failure where it is none of X's integers.
template <any_tensor X>
X full(context& ctx, std::initializer_list<std::int64_t> global, double number) {
  using Backend = typename X::backend;
  using T = typename X::element_type;
  detail::require_element<T>("full", number);
  const X x = detail::new_tensor<X>(ctx, detail::shape_from(global));
  if (detail::valid_part(x) == untyped(x).data.shape) {
    Backend::fill(ctx.template queue<Backend>(), untyped(x).data, number);
    if (ctx.replay) ctx.replay->created(untyped(x).data, detail::mix(std::bit_cast<std::uint64_t>(number)) + 1);
  } else {  // zeros in the padding
    const T element = static_cast<T>(number);
    detail::write_elements<Backend, T>(ctx, untyped(x).data, detail::placed(x), [=](std::int64_t) { return element; });
  }
  return x;
}
/// 0 at every element.
template <any_tensor X>
X zeros(context& ctx, std::initializer_list<std::int64_t> global) {
  return full<X>(ctx, global, 0);
}
/// 1 at every element.
template <any_tensor X>
X ones(context& ctx, std::initializer_list<std::int64_t> global) {
  return full<X>(ctx, global, 1);
}

/// Normal with mean 0: a function of (the context's seed, `name`, global index), so the same for every sharding.
template <any_tensor X>
X normal(context& ctx, std::string_view name, std::initializer_list<std::int64_t> global, double stddev = 1) {
  static_assert(floating<typename X::element_type>,
                "weft: normal<X>(ctx, \"name\", {...}) draws floating numbers: generate<X>(ctx, {...}, f) makes "
                "integers, f(index) at each index");
  require(detail::is_finite(stddev) && stddev >= 0, "normal: the standard deviation is ", stddev,
          "; it is a finite number, at least 0");
  const X x = detail::new_tensor<X>(ctx, detail::shape_from(global));
  if constexpr (floating<typename X::element_type>) {
    using Backend = typename X::backend;
    const local_array& own = untyped(x).data;
    const philox numbers{ctx.seed, stream_of(name)};
    Backend::normal(ctx.template queue<Backend>(), detail::placed(x), std::int64_t{0}, own.elements(), 0.0, stddev,
                    numbers, own.template as<typename X::element_type>());
    if (ctx.replay) ctx.replay->created(own, detail::mix(numbers.stream ^ std::bit_cast<std::uint64_t>(stddev)) + 1);
  }
  return x;
}
/// Uniform in [low, high), in the same way.
template <any_tensor X>
X uniform(context& ctx, std::string_view name, std::initializer_list<std::int64_t> global, double low = 0,
          double high = 1) {
  static_assert(floating<typename X::element_type>,
                "weft: uniform<X>(ctx, \"name\", {...}) draws floating numbers: generate<X>(ctx, {...}, f) makes "
                "integers, f(index) at each index");
  require(detail::is_finite(low) && detail::is_finite(high) && low <= high, "uniform: from ", low, " to ", high,
          "; these are finite numbers, the first not above the second");
  return generate<X>(ctx, global,
                     detail::uniform_numbers<typename X::element_type>{{ctx.seed, stream_of(name)}, low, high});
}

/// A tensor from the whole, global, row-major numbers: each rank copies its share. `numbers` is a vector, array or span
/// of X's element type, on the host, the same on every rank. Throws weft::failure when it has another count of them
/// than the product of `global`.
template <any_tensor X>
X from_global(context& ctx, std::initializer_list<std::int64_t> global,
              std::span<const typename X::element_type> numbers) {
  const X x = detail::new_tensor<X>(ctx, detail::shape_from(global));
  require(static_cast<std::int64_t>(numbers.size()) == untyped(x).whole.elements(), "from_global: a tensor of ",
          untyped(x).whole.elements(), " elements was given ", numbers.size(),
          " numbers; it takes all of them, row-major");
  detail::write_elements<typename X::backend, typename X::element_type>(
      ctx, untyped(x).data, detail::placed(x),
      [&](std::int64_t index) { return numbers[static_cast<std::size_t>(index)]; });
  return x;
}
/// Refused: numbers of another type, or a pointer, which doesn't say how many there are.
template <any_tensor X, class Numbers>
requires(!std::convertible_to<const Numbers&, std::span<const typename X::element_type>>) X
    from_global(context&, std::initializer_list<std::int64_t>, const Numbers&) {
  static_assert(sizeof(Numbers) == 0,
                "weft: from_global<X>(ctx, {...}, numbers) takes a vector, array or span of X's element type, which "
                "says how many there are: std::span(pointer, count)");
  return X();
}

}  // namespace weft
