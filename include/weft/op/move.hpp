// The movements that conversions are made of, over local arrays. Invariant: the slices of a dimension lie in rank
// order.
#pragma once

#include <weft/core/conversion.hpp>
#include <weft/tensor/context.hpp>

namespace weft::detail {

template <class Backend>
local_array copy_of(context& ctx, const local_array& x) {
  local_array y = ctx.make(x.type, x.shape);
  Backend::copy_bytes(ctx.queue<Backend>(), x.data, y.data, x.bytes());
  return y;
}

// An array seen as [outer, parts, inner]: dimension d cut into `parts` slices.
struct cut {
  std::int64_t outer, inner;
  cut(const shape& s, int d, int parts) : outer(s.elements(0, d)), inner(s.elements(d) / parts) {}
};

// [outer, parts, inner] -> [parts, outer, inner], so that each slice is in one piece; `back` for the inverse.
template <class Backend>
void regroup(context& ctx, const cut& c, int parts, const local_array& x, const local_array& y, bool back) {
  const std::int64_t extents[3] = {c.outer, parts, c.inner};
  const std::int64_t whole[3] = {parts * c.inner, c.inner, 1}, pieces[3] = {c.inner, c.outer * c.inner, 1};
  Backend::copy(ctx.queue<Backend>(), 3, extents, x, back ? pieces : whole, y, back ? whole : pieces);
}

template <class Backend>
local_array pieces_of(context& ctx, const local_array& x, int d, int parts) {
  const cut c(x.shape, d, parts);
  if (c.outer == 1) return x;
  local_array y = ctx.make(x.type, x.shape, memory::buffers);
  regroup<Backend>(ctx, c, parts, x, y, false);
  return y;
}

/// The dimension that a movement shards, or that was sharded: its position, and its extent over all ranks of the axis.
struct moved_dim {
  int at = -1;
  std::int64_t whole = 0;
};

inline shape part_of(shape s, int d, int parts) {
  s[d] /= parts;
  return s;
}

/// x with n elements along dimension d: the last ones left out, or zeros behind them.
template <class Backend>
local_array resized(context& ctx, const local_array& x, int d, std::int64_t n) {
  if (x.shape[d] == n) return x;
  shape out = x.shape;
  out[d] = n;
  const local_array y = ctx.make(x.type, out);
  if (n > x.shape[d]) Backend::zero(ctx.queue<Backend>(), y);
  const std::int64_t inner = x.shape.elements(d + 1), here = x.shape[d] * inner, there = n * inner;
  const std::int64_t extents[2] = {x.shape.elements(0, d), std::min(here, there)}, from[2] = {here, 1},
                     to[2] = {there, 1};
  Backend::copy(ctx.queue<Backend>(), 2, extents, x, from, y, to);
  return y;
}
/// x with dimension d rounded up so that the group's ranks have equal shares.
template <class Backend>
local_array even(context& ctx, const axis_group& group, const local_array& x, int d) {
  return resized<Backend>(ctx, x, d, (x.shape[d] + group.degree - 1) / group.degree * group.degree);
}

template <class Backend>
local_array slice(context& ctx, const axis_group& group, const local_array& uneven, int d) {
  const local_array x = even<Backend>(ctx, group, uneven, d);
  const cut c(x.shape, d, group.degree);
  const local_array y = ctx.make(x.type, part_of(x.shape, d, group.degree));
  const std::int64_t extents[2] = {c.outer, c.inner}, from[2] = {group.degree * c.inner, 1}, to[2] = {c.inner, 1};
  local_array start = x;
  start.data = static_cast<std::byte*>(x.data) + group.index * c.inner * static_cast<std::int64_t>(size_of(x.type));
  Backend::copy(ctx.queue<Backend>(), 2, extents, start, from, y, to);
  return y;
}

template <class Backend>
local_array pad(context& ctx, const axis_group& group, const local_array& x, int d) {
  shape whole = x.shape;
  whole[d] *= group.degree;
  const cut c(whole, d, group.degree);
  local_array y = ctx.make(x.type, whole);
  Backend::zero(ctx.queue<Backend>(), y);
  const std::int64_t extents[2] = {c.outer, c.inner}, from[2] = {c.inner, 1}, to[2] = {group.degree * c.inner, 1};
  local_array start = y;
  start.data = static_cast<std::byte*>(y.data) + group.index * c.inner * static_cast<std::int64_t>(size_of(y.type));
  Backend::copy(ctx.queue<Backend>(), 2, extents, x, from, start, to);
  return y;
}

template <class Backend>
local_array gather(context& ctx, axis_group& group, const local_array& x, int d, const collective_label& label) {
  shape whole = x.shape;
  whole[d] *= group.degree;
  const cut c(whole, d, group.degree);
  local_array y = ctx.make(x.type, whole);
  if (c.outer == 1) {
    group.comm.all_gather(x.data, y.data, x.bytes(), label).wait(ctx.order());
    return y;
  }
  local_array pieces = ctx.make(x.type, whole, memory::buffers);
  group.comm.all_gather(x.data, pieces.data, x.bytes(), label).wait(ctx.order());
  regroup<Backend>(ctx, c, group.degree, pieces, y, true);
  return y;
}

template <class Backend>
local_array scatter_sum(context& ctx, axis_group& group, const local_array& uneven, int d,
                        const collective_label& label) {
  const local_array x = even<Backend>(ctx, group, uneven, d);
  const local_array pieces = pieces_of<Backend>(ctx, x, d, group.degree);
  const local_array y = ctx.make(x.type, part_of(x.shape, d, group.degree));
  group.comm.reduce_scatter(pieces.data, y.data, y.elements(), x.type, reduction::sum, label).wait(ctx.order());
  return y;
}

template <class Backend>
local_array exchange(context& ctx, axis_group& group, const local_array& uneven, int from, int to,
                     const collective_label& label) {
  const local_array x = even<Backend>(ctx, group, uneven, to);
  const local_array pieces = pieces_of<Backend>(ctx, x, to, group.degree);
  shape after = x.shape;
  after[to] /= group.degree;
  after[from] *= group.degree;
  const cut c(after, from, group.degree);
  const bool in_place = c.outer == 1;  // what arrives is the output already
  const local_array received = ctx.make(x.type, after, in_place ? memory::activations : memory::buffers);
  group.comm.all_to_all(pieces.data, received.data, x.bytes() / group.degree, label).wait(ctx.order());
  if (in_place) return received;
  local_array y = ctx.make(x.type, after);
  regroup<Backend>(ctx, c, group.degree, received, y, true);
  return y;
}

template <class Backend>
local_array ring(context& ctx, axis_group& group, const local_array& x, int step, const collective_label& label) {
  local_array y = ctx.make(x.type, x.shape);
  const int n = group.degree;
  auto receive = group.comm.recv(y.data, x.bytes(), (group.index - step + n) % n, 0, label);
  auto send = group.comm.send(x.data, x.bytes(), (group.index + step + n) % n, 0, label);
  send.wait(ctx.order());
  receive.wait(ctx.order());
  return y;
}

/// Cost: bytes that a rank receives when x becomes y among n ranks, in the ring form of each collective.
WEFT_LINKED double received_bytes(movement what, const local_array& x, const local_array& y, int n) {
  const double others = static_cast<double>(n - 1) / n;
  switch (what) {
    case movement::all_reduce:
      return 2 * others * static_cast<double>(y.bytes());
    case movement::all_gather:
    case movement::all_to_all:
      return others * static_cast<double>(y.bytes());
    case movement::reduce_scatter:
      return others * static_cast<double>(x.bytes());
    case movement::shift:
    case movement::shift_back:
      return static_cast<double>(y.bytes());
    default:
      return 0;
  }
}

/// Moves x along one axis. `from` and `to`: the dimension that is sharded before and after; `label`: what the ranks say
/// that they move. A function for each movement, so that a program has those that its conversions name.
template <class Backend, movement What>
local_array move(context& ctx, axis_group& group, const local_array& x, [[maybe_unused]] moved_dim from,
                 [[maybe_unused]] moved_dim to, [[maybe_unused]] const collective_label& label) {
  static_assert(What != movement::refused);
  if constexpr (What == movement::none) {
    return x;
  } else if constexpr (What == movement::keep_first) {
    if (group.index == 0) return x;
    local_array y = ctx.make(x.type, x.shape);
    Backend::zero(ctx.queue<Backend>(), y);
    return y;
  } else if constexpr (What == movement::slice) {
    return slice<Backend>(ctx, group, x, to.at);
  } else if constexpr (What == movement::pad) {
    return resized<Backend>(ctx, pad<Backend>(ctx, group, x, from.at), from.at, from.whole);
  } else if constexpr (What == movement::all_reduce) {
    local_array y = ctx.make(x.type, x.shape);
    group.comm.all_reduce(x.data, y.data, x.elements(), x.type, reduction::sum, label).wait(ctx.order());
    return y;
  } else if constexpr (What == movement::all_gather) {
    return resized<Backend>(ctx, gather<Backend>(ctx, group, x, from.at, label), from.at, from.whole);
  } else if constexpr (What == movement::reduce_scatter) {
    return scatter_sum<Backend>(ctx, group, x, to.at, label);
  } else if constexpr (What == movement::all_to_all) {
    return resized<Backend>(ctx, exchange<Backend>(ctx, group, x, from.at, to.at, label), from.at, from.whole);
  } else {
    return ring<Backend>(ctx, group, x, What == movement::shift ? 1 : -1, label);
  }
}
using move_kernel = local_array (*)(context&, axis_group&, const local_array&, moved_dim from, moved_dim to,
                                    const collective_label&);

/// What a conversion moves by, and what its gradient moves by.
struct movers {
  movement what;
  move_kernel forward, backward;
};
template <class Backend, movement There, movement Back>
constexpr movers movers_of() {
  return {There, move<Backend, There>, move<Backend, Back>};
}

}  // namespace weft::detail
