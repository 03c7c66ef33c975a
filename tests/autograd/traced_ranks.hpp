// Ranks of a dp x tp mesh whose collectives are counted. Invariant: as launch, with the log in the caller's hands.
#pragma once

#include <string_view>

#include <weft/comm/threads.hpp>
#include <weft/comm/traced.hpp>
#include <weft/parallel/launch.hpp>

namespace weft_test {

/// Runs f(context&, count) on every rank; count("all_reduce", "tp") is how many of them this rank has started.
template <class Backend = weft::cpu_backend, class F>
void traced_ranks(const weft::degrees& mesh, F&& f) {
  using weft::context;
  using inner = weft::traced<weft::threads>;
  weft::trace_log log(static_cast<int>(mesh.product()));
  inner::launch(static_cast<int>(mesh.product()), log, [&](inner& world) {
    context ctx{weft::any_communicator(world), 1};
    ctx.set_queue<Backend>(std::make_shared<typename Backend::queue>(1));
    weft::detail::add_axes(ctx, mesh, weft::mesh<weft::dp, weft::tp>{});
    weft::tape recorded;
    ctx.tape = &recorded;
    f(ctx, [&](std::string_view operation, std::string_view axis) {
      int n = 0;
      for (const weft::trace_event& e : log.recorder(world.rank()).events)
        n += e.operation == operation && e.axis == axis;
      return n;
    });
  });
}

}  // namespace weft_test
