// A value compared along axes on which it is whole. Invariant: it is read, never changed, and hashed once for all axes;
// nothing is called unless the context checks.
#pragma once

#include <weft/tensor/consistency.hpp>

namespace weft::detail {

/// Axes by their identity.
struct axis_list {
  static constexpr int most = 8;
  axis_id at[most];
  int count = 0;
};

constexpr bool is_whole(on_axis at) { return at.kind == holds::invariant || at.kind == holds::replicate; }

/// The mesh's axes but those on which a tensor placed as L is not whole.
template <class L>
axis_list whole_axes(const context& ctx) {
  axis_list out;
  for (const axis_group& g : ctx.axes()) {
    bool whole = out.count < axis_list::most;
    [&]<class... As>(tag_list<As...>) {
      ((whole = whole && (id_of<As> != g.axis || is_whole(state_on<L, As>))), ...);
    }(axes_of<L>{});
    if (whole) out.at[out.count++] = g.axis;
  }
  return out;
}

/// x in the host's memory; `staged` keeps a copy where it lives on a device.
template <class Backend>
local_array host_view(context& ctx, const local_array& x, std::vector<std::byte>& staged) {
  if constexpr (Backend::host_memory) {
    return x;
  } else {
    constexpr bool has_numbers = !requires { requires !Backend::computes; };  // a plan has none
    if (has_numbers && ctx.lies_on_host(x.data)) return ctx.order().synchronize(), x;
    staged.resize(static_cast<std::size_t>(x.bytes()));
    Backend::download(ctx.queue<Backend>(), x.data, staged.data(), x.bytes());
    return local_array(staged.data(), x.type, x.shape);
  }
}

/// x, of which `valid` is no padding, is the same along these axes. ctx.check is not null. A checkpointed function that
/// runs again has outputs without memory, which nothing reads: what they held was compared in the first run.
template <class Backend>
[[gnu::cold, gnu::noinline]] void compare_along(const value& x, const shape& valid, const compared_value& what,
                                                const axis_list& axes) {
  context& ctx = *x.ctx;
  if (!x.held() && x.held().elements() != 0) return;
  std::vector<std::byte> staged;
  local_array numbers;
  std::uint64_t hash = 0;
  for (int i = 0; i < axes.count; ++i) {
    axis_group& along = ctx.along(axes.at[i]);
    if (!ctx.check->compares_along(along)) continue;
    if (!numbers) {
      numbers = host_view<Backend>(ctx, x.held(), staged);
      hash = hash_of(numbers, valid, x.whole);
    }
    ctx.check->compare(along, what, hash, numbers, valid);
  }
}

}  // namespace weft::detail
