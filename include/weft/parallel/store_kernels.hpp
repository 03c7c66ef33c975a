// What a parameter store asks of its backend, in its precision's types, as functions: so that what moves and sums a
// model's parameters is compiled once, and not once a precision. Invariant: arrays say their types, and nothing else
// that moves or sums parameters knows them.
#pragma once

#include <cstring>

#include <weft/autograd/gradients.hpp>
#include <weft/core/random.hpp>
#include <weft/nn/parameters.hpp>
#include <weft/op/create.hpp>
#include <weft/op/placed.hpp>
#include <weft/policy/precision.hpp>

namespace weft::detail {

struct store_kernels {
  dtype compute, gradient, reduce, master, moment;
  bool computes;  // whether there are numbers at all: a plan has none
  void (*zero)(context&, const local_array&);
  void (*copy)(context&, const local_array& from, const local_array& to);  // of one type and size
  /// to (+)= from, between compute and master, and between gradient and reduce.
  void (*convert)(context&, const local_array& from, const local_array& to, bool add);
  /// Initial values by a seed of elements of a parameter's slice, from number `first` on; in compute or master.
  void (*initialise)(context&, std::uint64_t seed, const parameter_record&, std::int64_t first, const local_array& to);
  local_array (*with_zero_padding)(context&, const local_array&, const shape& valid);
  void (*keep_gradient)(slot&);  // a parameter's, in its type
};

/// x, or a copy of it in the device's memory where x is of the optimizer's state and lies in the host's.
WEFT_LINKED local_array for_kernels(context& ctx, const store_kernels& kernels, const local_array& x) {
  if (!ctx.lies_on_host(x.data)) return x;
  local_array copy = ctx.make(x.type, x.shape, memory::buffers);
  kernels.copy(ctx, x, copy);
  return copy;
}
/// Makes x zero, wherever it lies. Of one in the host's memory it waits for the queue.
WEFT_LINKED void make_zero(context& ctx, const store_kernels& kernels, const local_array& x) {
  if (!ctx.lies_on_host(x.data)) return kernels.zero(ctx, x);
  ctx.order().synchronize();
  if (kernels.computes) std::memset(x.data, 0, static_cast<std::size_t>(x.bytes()));
}

template <class Backend, class Precision>
struct kernels_of_store {
  using compute = typename Precision::compute;
  using gradient = typename Precision::gradient;
  using reduce = typename Precision::reduce;
  using master = typename Precision::master;

  static void zero(context& ctx, const local_array& x) { Backend::zero(ctx.queue<Backend>(), x); }
  static void copy(context& ctx, const local_array& from, const local_array& to) {
    if constexpr (staging_backend<Backend>)
      if (ctx.lies_on_host(from.data) || ctx.lies_on_host(to.data))
        return ctx.queue<Backend>().copy_pinned(from.data, to.data, static_cast<std::size_t>(from.bytes()));
    Backend::copy_bytes(ctx.queue<Backend>(), from.data, to.data, to.bytes());
  }
  static void convert(context& ctx, const local_array& from, const local_array& to, bool add) {
    const auto are = [&](dtype a, dtype b) { return from.type == a && to.type == b; };
    if (are(dtype_of<gradient>, dtype_of<reduce>)) return add_converted<Backend, reduce, gradient>(ctx, from, to, add);
    if (are(dtype_of<reduce>, dtype_of<gradient>)) return add_converted<Backend, gradient, reduce>(ctx, from, to, add);
    if (are(dtype_of<master>, dtype_of<compute>)) return add_converted<Backend, compute, master>(ctx, from, to, add);
    add_converted<Backend, master, compute>(ctx, from, to, add);
  }
  static void initialise(context& ctx, std::uint64_t seed, const parameter_record& p, std::int64_t first,
                         const local_array& to) {
    const auto normal = [&](auto* out) {
      Backend::normal(ctx.queue<Backend>(), p.at, first, to.elements(), p.init.constant, p.init.stddev,
                      philox{seed, stream_of(p.name)}, out);
    };
    to.type == dtype_of<master> ? normal(to.template as<master>()) : normal(to.template as<compute>());
  }
  static constexpr store_kernels all{
      dtype_of<compute>,
      dtype_of<gradient>,
      dtype_of<reduce>,
      dtype_of<master>,
      dtype_of<moment_of<Precision>>,
      computes<Backend>,
      zero,
      copy,
      convert,
      initialise,
      [](context& ctx, const local_array& x, const shape& valid) { return with_padding<Backend>(ctx, x, valid); },
      keep_gradient_in<Backend, gradient, compute>};
};

}  // namespace weft::detail
