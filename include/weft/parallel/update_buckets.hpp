// How an optimizer meets what a rank stores of a bucket. Invariant: every stored element is updated once a step, and
// the new weights are then on their way to who reads them.
#pragma once

#include <weft/optim/by_shape.hpp>
#include <weft/optim/on_whole_matrices.hpp>
#include <weft/parallel/staged_state.hpp>

namespace weft::detail {

/// Throws where a store was made for an optimizer with other moments.
WEFT_LINKED void require_moments(const store_config& made_for, int moments, bool by_shape = false,
                                 int matrix_moments = 0) {
  require(made_for.by_shape == by_shape, "this store was made for an optimizer ", by_shape ? "of one kind" : "by shape",
          ", and this one is ", by_shape ? "by shape" : "of one kind", "; make it with config_of<policy, optimizer>()");
  require(made_for.moments == moments && (!by_shape || made_for.matrix_moments == matrix_moments),
          "the optimizer keeps ", moments, " moments, and this store was made for ", made_for.moments,
          "; make it with config_of<policy, optimizer>()");
}

/// Throws where moments would be rounded by the number of no step.
WEFT_LINKED void require_rounding_number(std::int64_t step) {
  require(step >= 1, "moments in bf16 are rounded by the step's number, which is ", step,
          "; take the step from adamw::at(number, lr)");
}

/// Calls f(step) with the step as optimizer O takes it: where it is made of kernels, as it is; one that computes on the
/// host is told its numbers there, and isn't called for a step that isn't taken.
template <class Backend, class O, class F>
void give_step(context& ctx, const kernel_step& step, F&& f) {
  if constexpr (of_kernels<O>) {
    f(step);
  } else {
    const double scale = number_on_host<Backend>(ctx.queue<Backend>(), step.grad_scale);
    if (!step.grad_scale.lies_in_memory() || !is_nan(scale)) f(optimizer_step{step.number, step.lr, scale});
  }
}

template <class Backend, class Precision>
struct bucket_update {
  using compute = typename Precision::compute;
  using gradient = typename Precision::gradient;
  using master = typename Precision::master;
  using moment = moment_of<Precision>;

  context& ctx;
  stored_bucket& s;
  std::string_view unit;
  gradient* gradients;       // of what this rank updates
  kernel_number grad_scale;  // the step's
  call_site at;              // where the program asks for it
  staged_state<Backend>& state;

  /// f(kernel_share, region, range) for what this rank updates of every parameter; frozen ones have nothing of that. Of
  /// a backend whose kernels are given the state where it is.
  template <class F>
  void parameters(F&& f) {
    update([&] {
      state.each_chunk(s, s.updated, state_parts::all,
                       [&](flat_range within, const bucket_state& kept) { regions(within, kept, f); });
    });
  }
  /// f(kernel_share) for the same elements, all of a chunk at once, unless more parameters that decay than decay_ranges
  /// holds lie between such that don't, or more tensors whose moments are rounded than rounding_ranges holds: as often
  /// as those are filled then.
  template <class F>
  void elements(F&& f) {
    update([&] {
      const auto alike = [](const flat_region& a, const flat_region& b) {
        return !rounds_moments<Precision> && a.parameter->decays == b.parameter->decays;
      };
      state.each_chunk(s, s.updated, state_parts::all, [&](flat_range within, const bucket_state& kept) {
        flat_range given;  // to the next call
        decay_ranges decaying;
        rounding_of<Precision> rounding;
        s.flat.each_run(within, alike, [&](const flat_region& r, flat_range part) {
          if (given.size() == 0) given.begin = part.begin;
          if ((r.parameter->decays && decaying.full()) || rounding.full()) {
            f(share_of(decaying, rounding, given, kept));
            given.begin = part.begin, decaying = {}, rounding = {};
          }
          if (r.parameter->decays) decaying.add(part.begin - given.begin, part.end - given.begin);
          if constexpr (rounds_moments<Precision>) rounding.add(part.begin - given.begin, rounding_at(r, part));
          given.end = part.end;
        });
        if (given.size() > 0) f(share_of(decaying, rounding, given, kept));
      });
    });
  }

  /// By an optimizer whose grain is the element.
  template <class Rule>
  void by_rule(const Rule& rule, const auto& step) {
    if constexpr (!keeps_moments_of<Rule>()) {
    } else if constexpr (kernel_optimizer<Rule>) {
      elements([&](const auto& share) { rule.update(share, step); });
    } else {
      constexpr bool takes_share =
          requires(const Rule& r, parameter_share<master, gradient>& x, const optimizer_step& t) {
        r.update(x, t);
      };
      static_assert(takes_share,
                    "weft: this optimizer's update(share, step) doesn't take a share of this precision, a "
                    "parameter_share<master, gradient>, which holds double under fp64: take it as auto& share");
      static_assert(Rule::moments >= 0 && Rule::moments <= 2,
                    "weft: an optimizer keeps 0, 1 or 2 moments for each element");
      static_assert(Backend::host_memory,
                    "weft: an optimizer of one's own updates its share on the host, and this backend's weights are not "
                    "there: take adamw, sgd or by_shape{muon{}, adamw{}}, or cpu_backend");
      parameters([&](const auto& share, const flat_region& r, flat_range) {
        const auto n = static_cast<std::size_t>(share.count);
        const auto kept = [&](master* a) { return a ? std::span<master>(a, n) : std::span<master>(); };
        const moment_spans<master> moments(kept(share.first), kept(share.second), Rule::moments);
        parameter_share<master, gradient> own{r.parameter->name, r.parameter->decays, kept(share.weight),
                                              std::span<const gradient>(share.gradient, n), moments};
        if constexpr (takes_share) rule.update(own, step);
        share.publish();
      });
    }
  }

  /// By one whose grain is the whole matrix. Where shares of the optimizer's state cut through matrices, the directions
  /// of a bucket are gathered, and a rank works on those matrices of which it stores a part (Moonlight, Liu et al.
  /// 2025).
  template <class Rule>
  void matrices(const Rule& rule, const auto& step) {
    if constexpr (keeps_moments_of<Rule>()) whole(rule, step);
  }

 private:
  template <class Rule>
  static constexpr bool keeps_moments_of() {
    constexpr bool by_kernels = kernel_optimizer<Rule> || matrix_optimizer<Rule>;
    constexpr bool rounds = !rounds_moments<Precision> || requires { requires Rule::rounds_moments; };
    constexpr bool can = !rounds || !rounds_moments<Precision> || by_kernels;
    static_assert(
        rounds,
        "weft: this precision keeps moments in bf16, rounded stochastically, which adamw alone does: take adamw, "
        "or a precision without moment, as bf16_mixed");
    static_assert(
        can,
        "weft: this precision keeps moments in bf16, and an optimizer that updates its share on the host can't round "
        "them: write it of the backend's kernels, with on_every_backend, or take a precision without moment, as "
        "bf16_mixed");
    return rounds && can;
  }
  template <class Rule>
  void whole(const Rule& rule, const auto& step) {
    const local_array own = ctx.make(dtype_of<master>, shape{1, {s.updated.size()}}, memory::buffers);
    Backend::zero(ctx.queue<Backend>(), own);
    constexpr bool apart = moments_in_direction<Rule>;
    state.each_chunk(s, s.updated, apart ? state_parts::moments : state_parts::all,
                     [&](flat_range within, const bucket_state& kept) {
                       regions(within, kept, [&](const auto& share, const flat_region&, flat_range part) {
                         rule.direction(share, own.template as<master>() + (part.begin - s.updated.begin), step);
                       });
                     });
    local_array all = own;
    std::int64_t first = s.updated.begin;  // of all
    if (s.key().shards_optimizer && !s.key().whole_shares) {
      first = 0;
      all = ctx.make(dtype_of<master>, shape{1, {s.flat.size}}, memory::buffers);
      s.group->comm.all_gather(own.data, all.data, own.bytes(), collective_label{"directions", {}, unit, -1, at})
          .wait(ctx.order());
    }
    const auto change = [&](const flat_region& r, flat_range part) {
      const parameter_record& p = *r.parameter;
      const local_array x(all.template as<master>() + (r.begin - first), dtype_of<master>, p.local);
      const matrix_sizes sizes =
          on_whole_matrices<Backend, master>(ctx, p.at, p.form, x, [&](const auto& whole) { rule.change(whole); });
      state.each_chunk(s, part, apart ? state_parts::weights : state_parts::all,
                       [&](flat_range within, const bucket_state& kept) {
                         const master* const moved = all.template as<master>() + (within.begin - first);
                         rule.update(share_of(r, within, kept), moved, sizes.rows, sizes.columns, step);
                       });
    };
    update([&] {
      for (const flat_region& r : s.flat.regions)
        if (const flat_range part = s.updated.overlap(r); part.size() > 0) change(r, part);
    });
  }

  template <class F>
  void update(F&& f) {
    if (!s.key().trained) return;
    s.gathering.wait(ctx.order());
    for (const flat_region& r : s.flat.regions) ++r.live->version;
    f();
    s.publish(unit, at);
  }
  // f(kernel_share, region, range) for what of every parameter lies within.
  template <class F>
  void regions(flat_range within, const bucket_state& kept, F&& f) const {
    for (const flat_region& r : s.flat.regions)
      if (const flat_range part = within.overlap(r); part.size() > 0) f(share_of(r, part, kept), r, part);
  }
  kernel_share<Backend, Precision> share_of(const flat_region& r, flat_range part, const bucket_state& kept) const {
    rounding_of<Precision> rounding;
    if constexpr (rounds_moments<Precision>) rounding = rounding_at(r, part);
    return share_of(r.parameter->decays ? decay_ranges::all(part.size()) : decay_ranges(), rounding, part, kept);
  }
  stochastic_rounding rounding_at(const flat_region& r, flat_range part) const {
    return {r.parameter->at, part.begin - r.begin, philox{s.seed, stream_of(r.parameter->name)}};
  }
  kernel_share<Backend, Precision> share_of(const decay_ranges& decaying, const rounding_of<Precision>& rounding,
                                            flat_range part, const bucket_state& kept) const {
    const std::int64_t o = part.begin - kept.begin;
    const auto moments = [&](const local_array& a) { return a ? a.template as<moment>() + o : nullptr; };
    return {ctx,
            decaying,
            part.size(),
            kept.master ? kept.master.template as<master>() + o : nullptr,
            gradients + (part.begin - s.updated.begin),
            moments(kept.first),
            moments(kept.second),
            s.working(part).template as<compute>(),
            grad_scale,
            rounding};
  }
};

}  // namespace weft::detail
