// Launch: starts the ranks of a mesh and gives each its context. Invariant: the last axis of the mesh varies fastest,
// so its ranks are neighbours.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include <weft/backend/cpu.hpp>
#include <weft/comm/threads.hpp>
#include <weft/core/exact_math.hpp>
#include <weft/parallel/launch_options.hpp>
#include <weft/policy/strategy.hpp>
#include <weft/tensor/consistency.hpp>
#include <weft/tensor/tape.hpp>

namespace weft {
namespace detail {

template <class Mesh>
void check_degrees(const degrees& wanted) {
  constexpr int most = 4096;
  int along = 1;
  for (int i = 0; i < Mesh::ndim; ++i) {
    const int n = wanted.of(Mesh::ids[i]);
    require(n >= 1, "axis ", Mesh::ids[i]->name, " was given ", n, " ranks; it has at least 1");
    require(Mesh::fixed[i] == 0 || Mesh::fixed[i] == n, "axis ", Mesh::ids[i]->name, " has ", Mesh::fixed[i],
            " ranks by its type, not ", n);
    require(n <= most / along, "the degrees take more than ", most, " ranks; check axis ", Mesh::ids[i]->name, " = ",
            n);
    along *= n;
  }
  const auto check = [](axis_id axis, int n) {
    bool known = n == 1 || !axis;
    for (int i = 0; i < Mesh::ndim; ++i) known = known || Mesh::ids[i] == axis;
    require(known, "axis ", known ? "" : axis->name, " was given ", n,
            " ranks, and the mesh doesn't have this axis; add it to mesh<...>, or leave its degree at 1");
  };
  for (const axis_id axis : {id_of<dp>, id_of<tp>, id_of<pp>, id_of<cp>, id_of<ep>}) check(axis, wanted.of(axis));
  for (const own_degrees::entry& e : wanted.own.at) check(e.axis, e.degree);
}

// The first and the last stage as a group of their own, for what both have; the stages between have no part in it.
[[gnu::cold]] WEFT_LINKED void add_pipeline_ends(context& ctx, any_communicator& stages) {
  const bool first = stages.rank() == 0, end = first || stages.rank() == stages.size() - 1;
  any_communicator ends = stages.split(end ? 0 : 1, stages.rank(), "pipeline_ends");
  axis_group group{id_of<pipeline_ends>, std::string(pipeline_ends::name), end ? 2 : 1, end && !first ? 1 : 0};
  if (end) {
    check_split(ends, "pipeline_ends", group.index, group.degree);
    group.comm = std::move(ends);
  }
  ctx.add_axis(std::move(group));
}

// This rank's group along one axis; `stride` is the distance between its ranks in the world.
[[gnu::cold]] WEFT_LINKED void add_axis(context& ctx, axis_id axis, std::string_view name, int degree, int stride) {
  const int index = ctx.rank().here() / stride % degree;
  axis_group group{axis, std::string(name), degree, index, stride};
  if (degree > 1) {
    group.comm = ctx.world.split(ctx.rank().here() - index * stride, index, group.name.c_str());
    check_split(group.comm, group.name, index, degree);
    if (axis == id_of<pp>) add_pipeline_ends(ctx, group.comm);
  }
  ctx.add_axis(std::move(group));
}

// Splits the world into this rank's group along every axis.
template <class... Entries>
[[gnu::cold]] void add_axes(context& ctx, const degrees& wanted, mesh<Entries...>) {
  [[maybe_unused]] int stride = ctx.size();  // a mesh may have no axes
  [[maybe_unused]] const auto add = [&]<class A>() {
    const int degree = wanted.of<A>();
    stride /= degree;
    add_axis(ctx, id_of<A>, A::name, degree, stride);
  };
  (add.template operator()<typename mesh_entry<Entries>::tag>(), ...);
}

// The groups along several axes that a store may ask for, whatever its stage holds.
[[gnu::cold, gnu::noinline]] inline void add_sets(context& ctx, const axis_set& stored_over) {
  each_subset(stored_over, [&](const axis_set& some) { ctx.along(some); });
}

// That what each axis gathers lies in the order of its ranks.
template <class... Entries>
[[gnu::cold]] void check_orders(context& ctx, const degrees& wanted, mesh<Entries...>) {
  [[maybe_unused]] int stride = ctx.size();
  [[maybe_unused]] const auto check = [&]<class A>() {
    stride /= wanted.of<A>();
    if (axis_group& along = ctx.along(id_of<A>); along.degree > 1)
      ctx.check->check_order(along, ctx.rank().here() - along.index * stride, stride);
  };
  (check.template operator()<typename mesh_entry<Entries>::tag>(), ...);
}

}  // namespace detail

namespace detail {
/// Whether a communicator's launch runs what it was asked for. Its ranks may be in several processes; this one has its
/// own.
class started_ranks {
 public:
  explicit started_ranks(int asked) : asked_(asked) {}
  /// A rank begins in a world of so many; throws where that isn't what was asked for.
  void begin(int size) {
    if (size != asked_) size_ = size;
    begun_.fetch_add(1);
    check();
  }
  void end() { ended_.fetch_add(1); }
  /// The communicator's launch has returned.
  void check_all() const {
    check();
    require(ended_ == begun_, "a rank threw an error, and the communicator's launch(", asked_,
            ", f) returned as if it hadn't: it has to throw the error to its caller");
  }

 private:
  WEFT_LINKED void check() const {
    const int begun = begun_, size = size_;
    if (begun >= 1 && begun <= asked_ && size == 0) [[likely]]
      return;
    const int started = size > 0 ? size : std::min(begun, asked_);  // how many more there are depends on who is asked
    fail("the communicator's launch(", asked_, ", f) started ", size == 0 && begun > asked_ ? "more than " : "",
         started, started == 1 ? " rank" : " ranks", "; it has to run f(world) once on each of ", asked_);
  }
  const int asked_;
  std::atomic<int> begun_{0}, ended_{0}, size_{0};  // size_: another than was asked for
};

/// A rank's context, and what stands beside it while its function runs.
struct launched_rank {
  [[gnu::noinline]] launched_rank(any_communicator world, const launch_options& options, memory_source source)
      : ctx(std::move(world), options.seed, source), compared(ctx) {
    if (options.check) ctx.check = &compared;
    if (options.record) ctx.tape = &recorded;
  }
  [[gnu::noinline]] ~launched_rank() {}
  launched_rank(const launched_rank&) = delete;
  launched_rank& operator=(const launched_rank&) = delete;
  /// The function has returned.
  [[gnu::noinline]] void end() {
    recorded.clear();
    ctx.order().synchronize();
    if (ctx.check) ctx.check->compare_reads();
  }

  context ctx;
  consistency compared;
  tape recorded;
};

/// Launches with the ranks' calls compared, where that is asked for and C has a launch of its own for it.
template <class C, class F>
bool launch_checked([[maybe_unused]] bool wanted, [[maybe_unused]] int ranks, [[maybe_unused]] const F& f) {
  if constexpr (requires { C::launch_checked(ranks, f); }) {
    if (wanted) C::launch_checked(ranks, f);
    return wanted;
  }
  return false;
}

/// Where a rank's tensors live: the backend's memory, or what the communicator registers of the same device's.
template <class S>
memory_source memory_of(bool registered) {
  if constexpr (!S::backend::host_memory && requires { S::communicator::registered_memory(); }) {
    if (registered) return S::communicator::registered_memory();
  }
  require(!registered, "launch_options.registered_buffers is on, and this strategy's communicator registers no memory ",
          "of its backend's; leave it off, or take nccl or nccl_mpi beside cuda_backend");
  return S::backend::memory();
}

/// Whether a launch can begin; where it can't, a sentence says why.
template <class S, class F>
constexpr bool check_launch() {
  constexpr bool strategic = requires {
    typename S::mesh;
    typename S::communicator;
    typename S::backend;
  };
  static_assert(strategic, "weft: launch<S>(degrees, f) takes a strategy: launch<strategy<mesh<dp>>>({.dp = 2}, f)");
  constexpr bool callable = requires(F & f, context & ctx) { f(ctx); };
  static_assert(callable,
                "weft: launch<S>(degrees, f) calls f(ctx) on every rank: write f as [&](context& ctx) { ... }, and "
                "let it capture what else it reads");
  if constexpr (strategic) return check_communicator<typename S::communicator>() && callable;
  return false;
}
}  // namespace detail

/// Runs f(context&) on every rank of S's mesh with the given degrees, and returns when all are done. A rank that throws
/// ends all of them, and its error is thrown here. Throws weft::failure when degrees and mesh don't fit. What f makes
/// on a rank ends with it: tensors must not be kept for afterwards, only numbers (item, on_host).
template <class S, class F>
void launch(const degrees& wanted, F&& f, launch_options options = {}) {
  if constexpr (detail::check_launch<S, F>()) {
    detail::require_exact_math();
    detail::check_degrees<typename S::mesh>(wanted);
    require(options.threads_per_rank >= 1, "threads_per_rank is ", options.threads_per_rank,
            "; it has to be at least 1");
    const int count = static_cast<int>(wanted.product());
    detail::started_ranks ranks(count);
    const auto run = [&](const any_communicator& world) {
      ranks.begin(world.size());
      const detail::rank_of_thread named;
      auto queue = S::backend::open(world.size(), world.rank(), options.threads_per_rank);
      detail::launched_rank here(options.trace.over(world), options, detail::memory_of<S>(options.registered_buffers));
      here.ctx.set_queue<typename S::backend>(std::move(queue));
      detail::add_axes(here.ctx, wanted, typename S::mesh{});
      detail::add_sets(here.ctx, axes_along<typename S::sharding::axis>{});
      if (here.ctx.check) detail::check_orders(here.ctx, wanted, typename S::mesh{});
      f(here.ctx);
      here.end();
      ranks.end();
    };
    if (!detail::launch_checked<typename S::communicator>(options.check, count, run))
      S::communicator::launch(count, [&](auto&& world) {
        constexpr bool own = std::same_as<decltype(world), typename S::communicator&>;
        static_assert(own,
                      "weft: a communicator's launch(ranks, f) calls f with an lvalue of its own type, not const: "
                      "counting own(...); f(own);");
        if constexpr (own) run(world);
      });
    ranks.check_all();
  }
}
/// Refused: the degrees come first.
template <class S, class F>
requires(!std::convertible_to<F, degrees>) void launch(F&&, const launch_options& = {}) {
  static_assert(sizeof(F) == 0,
                "weft: launch<S>(degrees, f) takes how many ranks lie along each axis first: launch<S>({.dp = 2}, f), "
                "or launch<S>({}, f) for one");
}

}  // namespace weft
