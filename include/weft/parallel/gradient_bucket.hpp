// The gradients of one bucket: its sums, and their way over the axis of its storage. Invariant: while a reduction is
// under way nobody writes to what it reads; a finished sum was finished once.
#pragma once

#include <weft/backend/concept.hpp>
#include <weft/parallel/flat_bucket.hpp>

namespace weft::detail {

template <class Backend, class Precision>
struct gradient_bucket {
  using gradient = typename Precision::gradient;
  using reduce_type = typename Precision::reduce;

  const flat_bucket* flat = nullptr;
  std::string_view unit{};
  axis_group* group = nullptr;  // of its storage; null: one rank
  flat_range stored{}, updated{};
  std::int64_t offset = 0;  // within a unit's whole gradient, where gradients are sharded
  local_array sums{};
  local_array staging{};           // in the type that they travel in, if that is another
  local_array sent{}, received{};  // of a reduce-scatter under way
  request reduction{};
  bool has_sum = false;  // sharded: whether `sums` holds one yet

  bool trained() const { return flat->key.trained; }
  bool sharded() const { return flat->key.shards_gradients; }
  gradient* at(std::int64_t flat_index) const { return sums.template as<gradient>() + (flat_index - stored.begin); }

  void begin_step(const queue_ref& order) {
    reduction.wait(order);
    staging = {};
    has_sum = false;
    point_away();
    forget();
  }
  /// Parameters have no gradient.
  void forget() {
    for (const flat_region& r : flat->regions) r.slot->has_gradient = false;
  }
  /// Backwards write into `whole`, all of the bucket's elements.
  void point_to(const local_array& whole) {
    for (const flat_region& r : flat->regions)
      r.slot->gradient = local_array(whole.template as<gradient>() + r.begin, dtype_of<gradient>, r.parameter->local);
  }
  void point_away() {
    for (const flat_region& r : flat->regions) r.slot->gradient = {};
  }

  /// Zeros where no gradient came, in padding, and between the parameters.
  void fill_gaps(context& ctx, const local_array& whole) {
    auto* g = whole.template as<gradient>();
    std::int64_t end = 0;
    const auto clear = [&](std::int64_t from, std::int64_t to) {
      if (to > from) Backend::zero(ctx.queue<Backend>(), local_array(g + from, dtype_of<gradient>, {1, {to - from}}));
    };
    for (const flat_region& r : flat->regions) {
      clear(end, r.begin);
      if (!r.slot->has_gradient)
        clear(r.begin, r.begin + r.count);
      else
        clear_padding(ctx, *r.parameter, g + r.begin);
      end = r.begin + r.count;
    }
    clear(end, flat->size);
  }

  /// Sharded: `whole`, which lives until complete(), is on its way to be summed, each share for the rank that keeps it.
  void post_reduce_scatter(context& ctx, const local_array& whole) {
    fill_gaps(ctx, whole);
    forget();
    const std::int64_t share = stored.size();
    sent = in_reduce_type(ctx, whole);
    const bool direct = std::is_same_v<gradient, reduce_type> && !has_sum;
    received = direct ? sums : ctx.make(dtype_of<reduce_type>, shape{1, {share}}, memory::buffers);
    reduction = group->comm.reduce_scatter(sent.data, received.data, share, dtype_of<reduce_type>, reduction::sum,
                                           collective_label{"gradients", {}, unit});
  }
  void complete(context& ctx) {
    reduction.wait(ctx.order());
    if (received.data != sums.data) add_converted<Backend, gradient, reduce_type>(ctx, received, sums, has_sum);
    has_sum = true;
    sent = received = {};
  }

  /// Whole: summed on every rank, or each share only on the rank that will update it.
  void post_reduction(context& ctx) {
    fill_gaps(ctx, sums);
    if (!group) return;
    staging = in_reduce_type(ctx, sums);
    auto* g = staging.template as<reduce_type>();
    const collective_label label{"gradients", {}, unit};
    reduction = flat->key.shards_optimizer
                    ? group->comm.reduce_scatter(g, g + updated.begin, updated.size(), dtype_of<reduce_type>,
                                                 reduction::sum, label)
                    : group->comm.all_reduce(g, g, flat->size, dtype_of<reduce_type>, reduction::sum, label);
  }
  /// After its wait: the sums are in their own type again.
  void unstage(context& ctx) {
    if (staging && staging.data != sums.data) add_converted<Backend, gradient, reduce_type>(ctx, staging, sums, false);
    staging = {};
  }

  static local_array in_reduce_type(context& ctx, const local_array& g) {
    if constexpr (std::is_same_v<gradient, reduce_type>) return g;
    local_array out = ctx.make(dtype_of<reduce_type>, shape{1, {g.elements()}}, memory::buffers);
    add_converted<Backend, reduce_type, gradient>(ctx, g, out, false);
    return out;
  }

 private:
  static void clear_padding(context& ctx, const parameter_record& p, gradient* g) {
    const shape valid = p.at.valid_part();
    if (valid == p.local) return;
    const local_array all(g, dtype_of<gradient>, p.local);
    const local_array cleared = with_padding<Backend>(ctx, all, valid);
    Backend::copy_bytes(ctx.queue<Backend>(), cleared.data, g, all.bytes());
  }
};

/// Finishes the sums of `buckets` that are pending on axes other than that of their storage (norms under sequence
/// parallelism, everything over the outer axis of `hybrid`): all such parameters in one all-reduce an axis.
template <class Backend, class Precision, class EachBucket>
void finish_other_axes(context& ctx, EachBucket&& each_bucket) {
  using bucket = gradient_bucket<Backend, Precision>;
  using gradient = typename Precision::gradient;
  using reduce_type = typename Precision::reduce;
  const auto each_pending = [&](axis_id axis, auto&& f) {
    each_bucket([&](bucket& b) {
      if (!b.trained() || b.flat->key.storage.has(axis)) return;
      for (const flat_region& r : b.flat->regions) {
        const auto& pending = r.parameter->pending;
        if (std::find(pending.begin(), pending.end(), axis) == pending.end()) continue;
        const flat_range part = b.updated.overlap(r);
        if (part.size() > 0) f(b.at(part.begin), part.size());
      }
    });
  };
  for (const axis_group& along : ctx.axes()) {
    axis_group& group = ctx.along(along.axis);
    if (group.degree == 1) continue;
    std::int64_t n = 0;
    each_pending(along.axis, [&](gradient*, std::int64_t count) { n += count; });
    if (n == 0) continue;
    auto& queue = ctx.queue<Backend>();
    local_array joined = ctx.make(dtype_of<gradient>, shape{1, {n}}, memory::buffers);
    auto* at = joined.template as<gradient>();
    each_pending(along.axis, [&](gradient* g, std::int64_t count) {
      Backend::copy_bytes(queue, g, at, count * static_cast<std::int64_t>(sizeof(gradient)));
      at += count;
    });
    const local_array travels = bucket::in_reduce_type(ctx, joined);
    group.comm
        .all_reduce(travels.data, travels.data, n, dtype_of<reduce_type>, reduction::sum,
                    {"pending gradients of all units"})
        .wait(ctx.order());
    if (travels.data != joined.data) add_converted<Backend, gradient, reduce_type>(ctx, travels, joined, false);
    at = joined.template as<gradient>();
    each_pending(along.axis, [&](gradient* g, std::int64_t count) {
      Backend::copy_bytes(queue, at, g, count * static_cast<std::int64_t>(sizeof(gradient)));
      at += count;
    });
  }
}

}  // namespace weft::detail
