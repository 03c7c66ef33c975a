// What a parameter store's step takes to be the same on every rank: weights and finished gradients, along the axes over
// which they are neither sharded nor stored in shares, and the step's numbers. Invariant: it reads what each rank keeps
// and moves nothing else.
#pragma once

#include <weft/comm/compare.hpp>
#include <weft/optim/optimizer.hpp>
#include <weft/parallel/flat_bucket.hpp>

namespace weft::detail {

/// The numbers of a step, on all ranks, stages too.
template <class Backend>
[[gnu::cold, gnu::noinline]] void compare_numbers(context& ctx, const adamw_step& s) {
  if (ctx.size() == 1) return;
  ctx.check->compare(ctx.world, "the world", {"the optimizer's step", "numbers"},
                     {{"lr", s.lr},
                      {"beta1", s.beta1},
                      {"beta2", s.beta2},
                      {"eps", s.eps},
                      {"weight_decay", s.weight_decay},
                      {"1 - beta1^t", s.bias1},
                      {"the gradients' factor", number_on_host<Backend>(ctx.queue<Backend>(), s.grad_scale)},
                      {"the context's seed", static_cast<double>(ctx.seed)}});
}

template <class Backend>
[[gnu::cold, gnu::noinline]] void compare_numbers(context& ctx, const kernel_step& s,
                                                  std::vector<named_number> own = {}) {
  if (ctx.size() == 1) return;
  for (const named_number& n : std::initializer_list<named_number>{
           {"lr", s.lr},
           {"the number of steps", static_cast<double>(s.number)},
           {"the gradients' factor", number_on_host<Backend>(ctx.queue<Backend>(), s.grad_scale)},
           {"the context's seed", static_cast<double>(ctx.seed)}})
    own.push_back(n);
  ctx.check->compare(ctx.world, "the world", {"the optimizer's step", "numbers"}, own);
}

/// Of every parameter, its weight and, if wanted, its gradient. ctx.check is not null.
template <class Backend, class Store>
[[gnu::cold, gnu::noinline]] void compare_store(context& ctx, Store& store, const char* operation, bool gradients) {
  std::vector<stored_parameter> kept;
  std::vector<std::uint64_t> hashes;  // of a weight, then of its gradient
  std::vector<std::byte> staged;
  const auto weight_of = [](const stored_parameter& p) { return p.is_quantised() ? p.codes : p.weight; };
  const auto hash = [&](const local_array& x) { return hash_of(host_view<Backend>(ctx, x, staged), x.shape, x.shape); };
  store.each_stored([&](const stored_parameter& p) {
    kept.push_back(p);
    hashes.push_back(hash(weight_of(p)));
    hashes.push_back(gradients && p.gradient ? hash(p.gradient) : 0);
  });
  std::vector<std::uint64_t> compared;
  std::vector<std::size_t> which;
  ctx.check->each_axis([&](axis_group& along) {
    compared.clear();
    which.clear();
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      const stored_parameter& p = kept[i / 2];
      if (along.cuts(p.record.sharded, p.storage)) continue;
      compared.push_back(hashes[i]);
      which.push_back(i);
    }
    if (compared.empty()) return;
    ctx.check->compare_all(along, {operation, "weights"}, compared, [&](std::size_t i, auto&& report) {
      const stored_parameter& p = kept[which[i] / 2];
      const bool weight = which[i] % 2 == 0;
      const local_array x = host_view<Backend>(ctx, weight ? weight_of(p) : p.gradient, staged);
      report(text(weight ? "the weight " : "the gradient of ", p.record.name), x, x.shape);
    });
  });
}

}  // namespace weft::detail
