// One rank of a planned run: its context, in which the program of a real run goes on without computing or sending
// anything, and what the rank would hold and move. Invariant: it is the program itself that is asked, so a plan has no
// formula that could differ from it.
#pragma once

#include <weft/parallel/launch.hpp>
#include <weft/plan/communicator.hpp>
#include <weft/plan/report.hpp>

namespace weft {

/// S as its plan runs it. A model of it is made as one of S: llama<planned<S>>.
template <class S>
using planned = on_backend<S, planned_backend>;

namespace detail {

// This rank's place along every axis; where stages are several, in the group of the first and the last too.
template <class... Entries>
std::vector<planned_place> places_of(const degrees& wanted, [[maybe_unused]] int rank, int ranks, mesh<Entries...>) {
  std::vector<planned_place> places;
  [[maybe_unused]] int stride = ranks;
  [[maybe_unused]] const auto add = [&]<class A>() {
    const int degree = wanted.of<A>(), index = rank / (stride /= degree) % degree;
    places.push_back({std::string(A::name), index, degree});
    if (!std::same_as<A, pp> || degree == 1) return;
    const bool end = index == 0 || index == degree - 1;
    places.push_back({std::string(pipeline_ends::name), end ? int(index > 0) : index - 1, end ? 2 : degree - 2});
  };
  (add.template operator()<typename mesh_entry<Entries>::tag>(), ...);
  return places;
}

// And along the sets of several axes that a sharding policy stores over.
inline void add_places(std::vector<planned_place>& places, const axis_set& stored_over) {
  detail::each_subset(stored_over, [&](const axis_set& some) {
    axis_set several;
    planned_place at{"", 0, 1};
    for (const axis_id axis : some)
      for (const planned_place& one : std::vector(places)) {
        if (one.name != axis->name || one.size == 1) continue;
        several.add(axis);
        at.rank = at.rank * one.size + one.rank, at.size *= one.size;
      }
    at.name = several.name();
    const bool known = std::any_of(places.begin(), places.end(), [&](const auto& p) { return p.name == at.name; });
    if (several.size() > 1 && !known) places.push_back(at);
  });
}

// The others of a stage hold and move as much. Where the mesh has no stages, rank 0 alone.
template <class Mesh>
std::vector<int> first_of_each_stage(const degrees& wanted) {
  check_degrees<Mesh>(wanted);
  std::vector<int> out;
  const int ranks = static_cast<int>(wanted.product());
  for (int rank = 0; rank < ranks && static_cast<int>(out.size()) < wanted.pp; ++rank) {
    int stage = 0;
    for (const planned_place& at : places_of(wanted, rank, ranks, Mesh{}))
      if (at.name == pp::name) stage = at.rank;
    if (stage == static_cast<int>(out.size())) out.push_back(rank);
  }
  return out;
}

}  // namespace detail

/// Rank `rank` of a mesh with these degrees, alone in this process. What a real run does with a launch's context is
/// done with ctx(); report() then says what it takes. `options.threads_per_rank`: on which kernels' scratch depends.
/// Throws weft::failure when degrees and mesh don't fit.
template <class S>
class planned_rank {
 public:
  planned_rank(const degrees& wanted, int rank, launch_options options = {})
      : places_(places(wanted, rank)),
        log_(static_cast<int>(wanted.product())),
        rank_(traced<planned_group>(planned_group(rank, log_.ranks(), places_), log_), without_check(options),
              planned_backend::memory()),
        spans_(ctx().memory) {
    require(options.threads_per_rank >= 1, "threads_per_rank is ", options.threads_per_rank,
            "; it has to be at least 1");
    context& here = rank_.ctx;
    constexpr bool scratch_known = std::same_as<typename S::backend, cpu_backend>;
    here.set_queue<planned_backend>(std::make_shared<planned_backend::queue>(
        planned_backend::queue{detail::planned_scratch(scratch_known ? options.threads_per_rank : 0),
                               detail::staging_backend<typename S::backend>}));
    detail::add_axes(here, wanted, typename S::mesh{});
    detail::add_sets(here, axes_along<typename S::sharding::axis>{});
    here.spans = &spans_;
  }
  ~planned_rank() { rank_.end(); }
  planned_rank(const planned_rank&) = delete;
  planned_rank& operator=(const planned_rank&) = delete;

  context& ctx() { return rank_.ctx; }
  /// Begins the report's collectives anew, as between setting up and a step.
  void forget_collectives() { forgotten_ = log_.events(rank_.ctx.rank().here()).size(); }
  /// What the rank holds now and held at most since it began, and what it has moved since forget_collectives().
  rank_plan report() const {
    const context& ctx = rank_.ctx;
    const memory_ledger &memory = ctx.memory.ledger(), &state = ctx.optimizer_ledger();
    return {ctx.rank().here(),
            ctx.size(),
            places_,
            memory,
            &state == &memory ? 0 : state.peak_total,
            ctx.offload_ledger().peak_total,
            std::string(spans_.made_in(memory.peak_made)),
            log_.totals(ctx.rank().here(), forgotten_)};
  }

 private:
  static launch_options without_check(launch_options options) {  // there is nobody to compare with
    options.check = false;
    return options;
  }
  static std::vector<planned_place> places(const degrees& wanted, int rank) {
    detail::check_degrees<typename S::mesh>(wanted);
    const int ranks = static_cast<int>(wanted.product());
    require(rank >= 0 && rank < ranks, "rank ", rank, " is to be planned, and the degrees make ranks 0 to ", ranks - 1);
    std::vector<planned_place> places = detail::places_of(wanted, rank, ranks, typename S::mesh{});
    detail::add_places(places, axes_along<typename S::sharding::axis>{});
    return places;
  }

  std::vector<planned_place> places_;
  trace_log log_;
  std::size_t forgotten_ = 0;  // events
  detail::launched_rank rank_;
  span_log spans_;
};

}  // namespace weft
