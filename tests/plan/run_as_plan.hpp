// What the ranks of a run say of themselves, as plans, and what of a plan is compared. Invariant: nothing here plans.
#pragma once

#include <string>
#include <vector>

#include <weft/plan/report.hpp>
#include <weft/weft.hpp>

namespace weft_test {

/// All that a plan says after which rank it is.
inline std::string said_by(const weft::rank_plan& p) {
  const std::string out = json_of(p);
  return out.substr(out.find("\"peak\""));
}

/// f(ctx, begin, note) on every rank: note() writes down what the rank holds, and its collectives since begin().
template <class S, class F>
std::vector<weft::rank_plan> run_as_plan(const weft::degrees& wanted, const F& f) {
  using namespace weft;
  std::vector<rank_plan> all(static_cast<std::size_t>(wanted.product()));
  trace_log log(static_cast<int>(wanted.product()));
  launch<S>(wanted,
            [&](context& ctx) {
              span_log spans(ctx.memory);
              const scoped_value<span_log*> now(ctx.spans, &spans);
              std::size_t before = 0;  // events
              const auto begin = [&] { before = log.events(ctx.rank().here()).size(); };
              const auto note = [&] {
                rank_plan& p = all[static_cast<std::size_t>(ctx.rank().here())];
                p.rank = ctx.rank().here(), p.ranks = ctx.size(), p.memory = ctx.memory.ledger();
                if (const memory_ledger& state = ctx.optimizer_ledger(); &state != &ctx.memory.ledger())
                  p.optimizer_elsewhere = state.peak_total;
                p.offloaded = ctx.offload_ledger().peak_total;
                p.peak_in = spans.made_in(p.memory.peak_made);
                p.collectives = log.totals(ctx.rank().here(), before);
              };
              f(ctx, begin, note);
            },
            {.trace = &log, .check = false});
  return all;
}

}  // namespace weft_test
