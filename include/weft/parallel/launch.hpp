// Launch: starts the ranks of a mesh and gives each its context. Invariant: the last axis of the mesh varies fastest,
// so its ranks are neighbours.
#pragma once

#include <memory>
#include <string>

#include <weft/autograd/tape.hpp>
#include <weft/backend/cpu.hpp>
#include <weft/comm/consistency.hpp>
#include <weft/comm/threads.hpp>
#include <weft/comm/traced.hpp>
#include <weft/policy/strategy.hpp>

namespace weft {

/// Where a launch writes its collectives: nowhere, or in a log for at least as many ranks. What does it is compiled
/// only in a program that names a log.
class trace_target {
 public:
  trace_target() = default;
  template <std::same_as<trace_log> Log>
  trace_target(Log* log)
      : log_(log), wrap_([](const any_communicator& world, trace_log& to) -> any_communicator {
          return traced<any_communicator>(world, to);
        }) {}

  /// `world`, recorded where there is a log.
  any_communicator over(const any_communicator& world) const { return log_ ? wrap_(world, *log_) : world; }

 private:
  trace_log* log_ = nullptr;
  any_communicator (*wrap_)(const any_communicator&, trace_log&) = nullptr;
};

/// Whether ranks compare what types say they hold alike, unless launch_options.check says otherwise: in a program that
/// is compiled without optimisation, and not with NDEBUG. -DWEFT_CHECK=1 or =0 decides it.
#if defined(WEFT_CHECK)
inline constexpr bool check_by_default = WEFT_CHECK != 0;
#elif defined(__OPTIMIZE__) || defined(NDEBUG)
inline constexpr bool check_by_default = false;
#else
inline constexpr bool check_by_default = true;
#endif

/// What a launch may be told beside the degrees. seed: of every random number of the run.
struct launch_options {
  std::uint64_t seed = 1;
  int threads_per_rank = 1;  // cores that each rank's kernels use
  bool record = true;        // whether operators are recorded for backward
  trace_target trace = {};   // a trace_log's address, where every collective is to be written
  /// Whether what types say is the same on every rank is compared where it is used so (docs/check.md).
  bool check = check_by_default;
};

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

// That a group is the one that was asked for: all that follows relies on its order.
[[gnu::cold, gnu::noinline]] inline void check_split(const any_communicator& made, const std::string& name, int index,
                                                     int degree) {
  require(made.rank() == index && made.size() == degree, "split(color, key, \"", name, "\") made this rank number ",
          made.rank(), " of ", made.size(), ", where number ", index, " of ", degree,
          " was asked for: a group has the ranks of one color, ordered by (key, rank); mend the communicator's split");
}

// The first and the last stage as a group of their own, for what both have; the stages between have no part in it.
[[gnu::cold, gnu::noinline]] inline void add_pipeline_ends(context& ctx, any_communicator& stages) {
  const bool first = stages.rank() == 0, end = first || stages.rank() == stages.size() - 1;
  any_communicator ends = stages.split(end ? 0 : 1, stages.rank(), "pipeline_ends");
  axis_group group{id_of<pipeline_ends>, pipeline_ends::name, end ? 2 : 1, end && !first ? 1 : 0, {}};
  if (end) {
    check_split(ends, "pipeline_ends", group.index, group.degree);
    group.comm = std::move(ends);
  }
  ctx.add_axis(std::move(group));
}

// This rank's group along one axis; `stride` is the distance between its ranks in the world.
[[gnu::cold, gnu::noinline]] inline void add_axis(context& ctx, axis_id axis, std::string_view name, int degree,
                                                  int stride) {
  const int index = ctx.rank() / stride % degree;
  axis_group group{axis, name, degree, index, {}};
  if (degree > 1) {
    group.comm = ctx.world.split(ctx.rank() - index * stride, index, std::string(name).c_str());
    check_split(group.comm, std::string(name), index, degree);
    if (axis == id_of<pp>) add_pipeline_ends(ctx, group.comm);
  }
  ctx.add_axis(std::move(group));
}

// Splits the world into this rank's group along every axis.
template <class... Entries>
[[gnu::cold]] void add_axes(context& ctx, const degrees& wanted, mesh<Entries...>) {
  [[maybe_unused]] int stride = ctx.size();  // a mesh may have no axes
  (([&] {
     using A = typename mesh_entry<Entries>::tag;
     const int degree = wanted.of<A>();
     stride /= degree;
     add_axis(ctx, id_of<A>, A::name, degree, stride);
   }()),
   ...);
}

// That what each axis gathers lies in the order of its ranks.
template <class... Entries>
[[gnu::cold]] void check_orders(context& ctx, const degrees& wanted, mesh<Entries...>) {
  [[maybe_unused]] int stride = ctx.size();
  (([&] {
     using A = typename mesh_entry<Entries>::tag;
     stride /= wanted.of<A>();
     if (axis_group* along = ctx.group(id_of<A>))
       ctx.check->check_order(*along, ctx.rank() - along->index * stride, stride);
   }()),
   ...);
}

}  // namespace detail

/// Runs f(context&) on every rank of S's mesh with the given degrees, and returns when all are done. A rank that throws
/// ends all of them, and its error is thrown here. Throws weft::failure when degrees and mesh don't fit. What f makes
/// on a rank ends with it: tensors must not be kept for afterwards, only numbers (item, on_host).
template <class S, class F>
void launch(const degrees& wanted, F&& f, launch_options options = {}) {
  static_assert(detail::check_communicator<typename S::communicator>());
  detail::check_degrees<typename S::mesh>(wanted);
  require(options.threads_per_rank >= 1, "threads_per_rank is ", options.threads_per_rank, "; it has to be at least 1");
  S::communicator::launch(static_cast<int>(wanted.product()), [&](typename S::communicator& world) {
    auto queue = S::backend::open(world.size(), world.rank(), options.threads_per_rank);
    context ctx{options.trace.over(world), options.seed, S::backend::memory()};
    ctx.set_queue<typename S::backend>(std::move(queue));
    detail::add_axes(ctx, wanted, typename S::mesh{});
    consistency compared(ctx);
    if (options.check) {
      ctx.check = &compared;
      detail::check_orders(ctx, wanted, typename S::mesh{});
    }
    tape recorded;
    if (options.record) ctx.tape = &recorded;
    f(ctx);
    recorded.clear();
    if (options.check) compared.compare_reads();
  });
}

}  // namespace weft
