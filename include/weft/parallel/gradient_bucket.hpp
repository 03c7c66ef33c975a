// The gradients of one bucket: its sums, and their way over the axes of its storage and, of whole buckets, over further
// ones. Invariant: while a reduction is under way nobody writes to what it reads; a finished sum was finished once.
#pragma once

#include <weft/parallel/flat_bucket.hpp>
#include <weft/parallel/store_kernels.hpp>

namespace weft::detail {

struct gradient_bucket {
  const store_kernels* kernels = nullptr;
  const flat_bucket* flat = nullptr;
  std::string_view unit{};
  axis_group* group = nullptr;  // of its storage
  flat_range stored{}, updated{};
  std::int64_t offset = 0;  // within a unit's whole gradient, where gradients are sharded
  local_array sums{};
  local_array staging{};           // in the type that they travel in, if that is another
  local_array sent{}, received{};  // of a reduce-scatter under way
  request reduction{};
  bool has_sum = false;  // sharded: whether `sums` holds one yet
  // Those along which the sums of all its parameters are pending too, such as the outer one of `hybrid`: summed by and
  // by, once those along its storage are there.
  std::vector<axis_group*> others{};
  std::size_t summed = 0;  // along so many of them, the one under way included
  local_array carried{};   // what that one sums: `updated`, in the type in which sums travel

  bool trained() const { return flat->key.trained; }
  bool sharded() const { return flat->key.shards_gradients; }
  /// The sums of elements of the bucket that this rank stores.
  local_array at(const flat_range& part) const { return seen(sums, part.begin - stored.begin, {1, {part.size()}}); }

  void begin_step(const queue_ref& order) {
    reduction.wait(order);
    staging = carried = {};
    has_sum = false;
    summed = 0;
    point_away();
    forget();
  }
  /// Parameters have no gradient.
  void forget() {
    for (const flat_region& r : flat->regions) r.slot->has_gradient = false;
  }
  /// Backwards write into `whole`, all of the bucket's elements.
  void point_to(const local_array& whole) {
    for (const flat_region& r : flat->regions) r.slot->gradient = seen(whole, r.begin, r.parameter->local);
  }
  void point_away() {
    for (const flat_region& r : flat->regions) r.slot->gradient = {};
  }

  /// Zeros where no gradient came, in padding, and between the parameters.
  WEFT_LINKED void fill_gaps(context& ctx, const local_array& whole) {
    std::int64_t end = 0;
    const auto clear = [&](std::int64_t from, std::int64_t to) {
      if (to > from) kernels->zero(ctx, seen(whole, from, {1, {to - from}}));
    };
    for (const flat_region& r : flat->regions) {
      clear(end, r.begin);
      if (!r.slot->has_gradient)
        clear(r.begin, r.begin + r.count);
      else
        clear_padding(ctx, *r.parameter, seen(whole, r.begin, r.parameter->local));
      end = r.begin + r.count;
    }
    clear(end, flat->size);
  }

  /// Sharded: `whole`, which lives until complete(), is on its way to be summed, each share for the rank that keeps it.
  WEFT_LINKED void post_reduce_scatter(context& ctx, const local_array& whole) {
    fill_gaps(ctx, whole);
    forget();
    const std::int64_t share = stored.size();
    sent = in_reduce_type(ctx, *kernels, whole);
    const bool direct = kernels->gradient == kernels->reduce && !has_sum;
    received = direct ? sums : ctx.make(kernels->reduce, shape{1, {share}}, memory::buffers);
    reduction = group->comm.reduce_scatter(sent.data, received.data, share, kernels->reduce, reduction::sum,
                                           collective_label{"gradients", {}, unit});
  }
  WEFT_LINKED void complete(context& ctx) {
    reduction.wait(ctx.order());
    if (!received) return;  // it wasn't posted: an error came before
    if (received.data != sums.data) kernels->convert(ctx, received, sums, has_sum);
    has_sum = true;
    sent = received = {};
  }

  /// Whole: summed on every rank, or each share only on the rank that will update it.
  WEFT_LINKED void post_reduction(context& ctx) {
    fill_gaps(ctx, sums);
    if (group->degree == 1) return;
    staging = in_reduce_type(ctx, *kernels, sums);
    const collective_label label{"gradients", {}, unit};
    reduction =
        flat->key.shards_optimizer
            ? group->comm.reduce_scatter(staging.data, seen(staging, updated.begin, {}).data, updated.size(),
                                         kernels->reduce, reduction::sum, label)
            : group->comm.all_reduce(staging.data, staging.data, flat->size, kernels->reduce, reduction::sum, label);
  }

  /// Finds `others`. One of vectors alone has none: many small messages take longer than one of all of them. A
  /// pipeline's stages have other units each, so what is pending between them is summed for all units at once.
  WEFT_LINKED void find_others(context& ctx) {
    const auto pending_over = [](axis_id axis) {
      return [axis](const flat_region& r) {
        const auto& pending = r.parameter->pending;
        return std::find(pending.begin(), pending.end(), axis) != pending.end();
      };
    };
    const auto& all = flat->regions;
    if (std::none_of(all.begin(), all.end(), [](const flat_region& r) { return r.parameter->global.ndim > 1; })) return;
    for (const axis_group& g : ctx.axes())
      if (g.degree > 1 && g.axis != id_of<pp> && g.axis != id_of<pipeline_ends> && !flat->key.storage.has(g.axis) &&
          std::all_of(all.begin(), all.end(), pending_over(g.axis)))
        others.push_back(&ctx.along(g.axis));
  }
  bool is_summed_over(axis_id axis) const {
    return flat->key.storage.has(axis) ||
           std::any_of(others.begin(), others.end(), [axis](const axis_group* g) { return g->axis == axis; });
  }
  /// Waits for the sum under way, and begins the one along the next of the others. False where there is none.
  WEFT_LINKED bool post_other(context& ctx) {
    reduction.wait(ctx.order());
    unstage(ctx);
    if (summed == others.size()) return false;
    const local_array own = at(updated);
    carried = in_reduce_type(ctx, *kernels, own);
    reduction = others[summed++]->comm.all_reduce(carried.data, carried.data, own.elements(), kernels->reduce,
                                                  reduction::sum, collective_label{"gradients", {}, unit});
    return true;
  }

  WEFT_LINKED static local_array in_reduce_type(context& ctx, const store_kernels& kernels, const local_array& g) {
    if (kernels.gradient == kernels.reduce) return g;
    local_array out = ctx.make(kernels.reduce, shape{1, {g.elements()}}, memory::buffers);
    kernels.convert(ctx, g, out, false);
    return out;
  }

 private:
  // What was reduced is in its own type again.
  void unstage(context& ctx) {
    if (staging && staging.data != sums.data) kernels->convert(ctx, staging, sums, false);
    if (carried)
      if (const local_array own = at(updated); carried.data != own.data) kernels->convert(ctx, carried, own, false);
    staging = carried = {};
  }
  WEFT_LINKED void clear_padding(context& ctx, const parameter_record& p, const local_array& g) const {
    const shape valid = p.at.valid_part();
    if (valid != p.local) kernels->copy(ctx, kernels->with_zero_padding(ctx, g, valid), g);
  }
};

/// The gradients of one unit.
struct unit_sums {
  std::vector<gradient_bucket> buckets;
  std::string_view name;
  std::int64_t whole = 0;    // elements of its buckets whose gradients are sharded
  bool travels = false;      // whether sums are begun by the step's last backward: where any isn't sharded, and others
  int uses = 0;              // recorded forwards whose backward is to come
  int backwards = 0;         // in this step
  std::int64_t latest = -1;  // micro-batch that it was recorded in, where a pipeline numbers them
  int depth = 0;             // backwards that it is in, one inside the other
  bool complete = false;     // by the step's last backward
  bool posted = false;       // of the buckets that aren't sharded
};

/// f(what this rank updates of a parameter's sums) for those of all units that are pending on this axis too, along
/// which their bucket isn't summed as a whole.
template <class F>
void each_pending(const std::vector<unit_sums>& units, axis_id axis, F&& f) {
  for (const unit_sums& u : units)
    for (const gradient_bucket& b : u.buckets) {
      if (!b.trained() || b.is_summed_over(axis)) continue;
      for (const flat_region& r : b.flat->regions) {
        const auto& pending = r.parameter->pending;
        if (std::find(pending.begin(), pending.end(), axis) == pending.end()) continue;
        if (const flat_range part = b.updated.overlap(r); part.size() > 0) f(b.at(part));
      }
    }
}

/// Finishes the sums of those parameters that are pending on an axis along which their bucket isn't summed as a whole
/// (norms under sequence parallelism): all of them in one all-reduce an axis. asked: where the program asks for it.
WEFT_LINKED void finish_other_axes(context& ctx, const store_kernels& kernels, const std::vector<unit_sums>& units,
                                   call_site asked) {
  for (const axis_group& along : ctx.axes()) {
    axis_group& group = ctx.along(along.axis);
    if (group.degree == 1) continue;
    std::int64_t n = 0, at = 0;
    each_pending(units, along.axis, [&](const local_array& g) { n += g.elements(); });
    if (n == 0) continue;
    const local_array joined = ctx.make(kernels.gradient, shape{1, {n}}, memory::buffers);
    const auto next = [&](const local_array& g) { return seen(joined, std::exchange(at, at + g.elements()), g.shape); };
    each_pending(units, along.axis, [&](const local_array& g) { kernels.copy(ctx, g, next(g)); });
    const local_array travels = gradient_bucket::in_reduce_type(ctx, kernels, joined);
    group.comm
        .all_reduce(travels.data, travels.data, n, kernels.reduce, reduction::sum,
                    collective_label{"pending gradients of all units", {}, {}, -1, asked})
        .wait(ctx.order());
    if (travels.data != joined.data) kernels.convert(ctx, travels, joined, false);
    at = 0;
    each_pending(units, along.axis, [&](const local_array& g) { kernels.copy(ctx, next(g), g); });
  }
}

}  // namespace weft::detail
