// What a parameter store's step takes to be the same on every rank: weights and finished gradients, along the axes over
// which they are neither sharded nor stored in shares; scales of weights in few bits, along all; and the step's
// numbers. Invariant: it reads what each rank keeps and moves nothing else.
#pragma once

#include <weft/optim/optimizer.hpp>
#include <weft/parallel/unit_store.hpp>
#include <weft/tensor/compare.hpp>

namespace weft::detail {

/// The numbers of a step, on all ranks, stages too; factor: the gradients', on the host.
[[gnu::cold]] WEFT_LINKED void compare_numbers(context& ctx, const adamw_step& s, double factor) {
  if (ctx.size() == 1) return;
  ctx.check->compare(ctx.world, "the world", {"the optimizer's step", "numbers"},
                     {{"lr", s.lr},
                      {"beta1", s.beta1},
                      {"beta2", s.beta2},
                      {"eps", s.eps},
                      {"weight_decay", s.weight_decay},
                      {"1 - beta1^t", s.bias1},
                      {"the gradients' factor", factor},
                      {"the context's seed", static_cast<double>(ctx.seed)}});
}

[[gnu::cold]] WEFT_LINKED void compare_numbers(context& ctx, const kernel_step& s, double factor,
                                               std::vector<named_number> own = {}) {
  if (ctx.size() == 1) return;
  for (const named_number& n :
       std::initializer_list<named_number>{{"lr", s.lr},
                                           {"the number of steps", static_cast<double>(s.number)},
                                           {"the gradients' factor", factor},
                                           {"the context's seed", static_cast<double>(ctx.seed)}})
    own.push_back(n);
  ctx.check->compare(ctx.world, "the world", {"the optimizer's step", "numbers"}, own);
}

/// Of every parameter, its weight and, if wanted, its gradient. ctx.check is not null. view: host_view<the store's
/// backend>.
[[gnu::cold]] WEFT_LINKED void compare_store(context& ctx, unit_store& store, const char* operation, bool gradients,
                                             local_array (*view)(context&, const local_array&,
                                                                 std::vector<std::byte>&)) {
  struct part {
    std::string_view of;
    const char* what;
    local_array numbers;
    const parameter_record* cut;  // along its axes and those of its storage; null: whole on every rank
    axis_set storage;
  };
  std::vector<part> kept;
  std::vector<std::uint64_t> hashes;
  std::vector<std::byte> staged;
  const auto hash = [&](const local_array& x) { return hash_of(view(ctx, x, staged), x.shape, x.shape); };
  store.each_stored([&](const stored_parameter& p) {
    const auto add = [&](const char* what, const local_array& x) {
      if (x) kept.push_back({p.record.name, what, x, &p.record, p.storage}), hashes.push_back(hash(x));
    };
    add("the weight ", p.weight), add("the codes of ", p.codes), add("the levels of ", p.levels);
    if (gradients) add("the gradient of ", p.gradient);
  });
  store.each_scales([&](const parameter_record& p, const local_array& x) {
    kept.push_back({p.name, "the scales of ", x, nullptr, {}}), hashes.push_back(hash(x));
  });
  std::vector<std::uint64_t> compared;
  std::vector<std::size_t> which;
  ctx.check->each_axis([&](axis_group& along) {
    compared.clear();
    which.clear();
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      if (kept[i].cut && along.cuts(kept[i].cut->sharded, kept[i].storage)) continue;
      compared.push_back(hashes[i]);
      which.push_back(i);
    }
    if (compared.empty()) return;
    ctx.check->compare_all(along, {operation, "weights"}, compared, [&](std::size_t i, auto&& report) {
      const part& p = kept[which[i]];
      const local_array x = view(ctx, p.numbers, staged);
      report(text(p.what, p.of), x, x.shape);
    });
  });
}

}  // namespace weft::detail
