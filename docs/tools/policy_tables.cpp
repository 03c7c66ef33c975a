// Prints the generated parts of docs/policies/*.md: what the shipped policies' members are, and what they cost,
// measured. Invariant: every number is read from a policy's members, from a rank's memory ledger or from a trace of its
// collectives. docs/tools/generate.sh compiles and runs this; a part is `== NAME` and the lines up to the next one.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <weft/testing/schedule.hpp>
#include <weft/weft.hpp>

namespace {
using namespace weft;

void part(const char* name) { std::printf("== %s\n", name); }
std::string text(std::string_view s) { return std::string(s); }
// At most two digits after the point, none that say nothing.
std::string number(double x) {
  char out[32];
  std::snprintf(out, sizeof out, "%.2f", x);
  std::string s = out;
  while (s.back() == '0') s.pop_back();
  if (s.back() == '.') s.pop_back();
  return s;
}

// ---- sharding ----

template <class... As>
std::string names(tag_list<As...>) {
  std::string out;
  ((out += (out.empty() ? "`" : ", `") + text(As::name) + "`"), ...);
  return out;
}
template <sharding_policy P>
void sharding_row() {
  const auto says = [](bool b) { return b ? "yes" : "no"; };
  std::printf("| `%s` | %s | %s | %s | %d | `%s` | %s |\n", text(P::name).c_str(), says(P::shards_parameters),
              says(P::shards_gradients), says(P::shards_optimizer), int(P::prefetch), text(P::axis::name).c_str(),
              names(batch_axes_of<P>{}).c_str());
}

// A chain of eight units of 4096 weights each, trained for one step on four ranks: what each rank holds and moves.
constexpr int units = 8;
constexpr std::int64_t width = 4096, total = units * width;
struct cost {
  double parameters = 0, gradients = 0, optimizer = 0;  // bytes a parameter
  double buffers = 0;                                   // bytes a parameter of the largest unit
  std::map<std::string, double> moved;                  // by collective, of weights and gradients: bytes a parameter
};

template <class Precision>
cost measure(const store_config& config, const degrees& mesh_of, int micro_batches) {
  using S = strategy<mesh<dp, fsdp>, Precision>;
  using T = typename Precision::compute;
  cost out;
  trace_log log(static_cast<int>(mesh_of.product()));
  launch<S>(
      mesh_of,
      [&](context& ctx) {
        using weights = tensor<T, dims<ffn, hidden>, replicate<dp, fsdp>>;  // a matrix of one row
        using stream = tensor<T, dims<batch, ffn, hidden>, shard<batch, dp, fsdp>>;
        parameter_registry registry;
        std::vector<weights> w(units);
        for (int u = 0; u < units; ++u) {
          registry.begin_unit("unit");
          registry.add(ctx, w[static_cast<std::size_t>(u)], "w" + std::to_string(u), {2, {1, width}}, {.constant = 1});
        }
        parameter_store<cpu_backend, Precision> store(ctx, registry, config);
        store.begin_step(micro_batches);
        for (int m = 0; m < micro_batches; ++m) {
          stream x = ones<stream>(ctx, {ctx.size(), 1, width});
          for (int u = 0; u < units; ++u)
            x = in_unit(
                ctx, store, u, [&](const stream& h) -> stream { return h * w[static_cast<std::size_t>(u)]; }, x);
          backward(sum(x));
          store.end_micro_batch();
        }
        store.finish_gradients();
        store.step(adamw{}.at(1, 1e-3));
        ctx.world.barrier().wait();
        if (!ctx.is_first()) return;
        const memory_ledger& held = ctx.memory.ledger();
        const auto bytes = [&](memory category) {
          return static_cast<double>(held.peak[static_cast<std::size_t>(category)]);
        };
        out.parameters = bytes(memory::parameters) / total, out.gradients = bytes(memory::gradients) / total;
        out.optimizer = bytes(memory::optimizer) / total, out.buffers = bytes(memory::buffers) / width;
      },
      {.trace = &log});
  for (const trace_total& t : log.totals(0))
    if (t.axis != "world") out.moved[t.operation + " over `" + t.axis + "`"] += static_cast<double>(t.bytes) / total;
  return out;
}

template <sharding_policy P>
constexpr degrees four_ranks() {
  return std::same_as<typename P::axis, fsdp> ? degrees{.dp = 2}.with<fsdp>(2) : degrees{.dp = 4};
}
template <class Precision, sharding_policy P>
void memory_row() {
  const cost c = measure<Precision>(config_of<P>(), four_ranks<P>(), 3);
  std::printf("| `%s` | `%s` | %s | %s | %s | %s |\n", text(P::name).c_str(), text(Precision::name).c_str(),
              number(c.parameters).c_str(), number(c.gradients).c_str(), number(c.optimizer).c_str(),
              number(c.buffers).c_str());
}
template <class Precision, sharding_policy P>
void movement_row() {
  const cost once = measure<Precision>(config_of<P>(), four_ranks<P>(), 1),
             thrice = measure<Precision>(config_of<P>(), four_ranks<P>(), 3);
  std::printf("| `%s` | `%s` ", text(P::name).c_str(), text(Precision::name).c_str());
  for (const char* what : {"all_gather", "reduce_scatter", "all_reduce"}) {
    std::string cell;
    for (const auto& entry : once.moved)
      if (entry.first.starts_with(what))
        cell =
            number(entry.second) + ", " + number(thrice.moved.at(entry.first)) + entry.first.substr(std::strlen(what));
    std::printf("| %s ", cell.empty() ? "-" : cell.c_str());
  }
  std::printf("|\n");
}
template <class Precision, class F>
void each_sharding(F&& f) {
  f.template operator()<Precision, replicated>(), f.template operator()<Precision, zero1>(),
      f.template operator()<Precision, zero2>(), f.template operator()<Precision, zero3>(),
      f.template operator()<Precision, hybrid>();
}
void cost_tables() {
  part("sharding memory");
  std::printf("| policy | precision | weights | gradients | optimizer | buffers |\n|---|---|---|---|---|---|\n");
  const auto memory = []<class Precision, class P>() { memory_row<Precision, P>(); };
  each_sharding<fp32>(memory), each_sharding<bf16_mixed>(memory);
  part("sharding movement");
  std::printf("| policy | precision | all-gather | reduce-scatter | all-reduce |\n|---|---|---|---|---|\n");
  const auto movement = []<class Precision, class P>() { movement_row<Precision, P>(); };
  each_sharding<fp32>(movement), each_sharding<bf16_mixed>(movement);
}

// ---- precision ----

template <precision_policy P>
void precision_row() {
  const auto type = []<class T>(T) { return "`" + text(name_of(dtype_of<T>)) + "`"; };
  const cost c = measure<P>(config_of<replicated>(), {}, 1);
  std::printf("| `%s` | %s | %s | %s | %s | %s | %s | %s + %s + %s = %s |\n", text(P::name).c_str(),
              type(typename P::compute{}).c_str(), type(typename P::gradient{}).c_str(),
              type(typename P::reduce{}).c_str(), type(typename P::master{}).c_str(),
              type(detail::moment_of<P>{}).c_str(),
              initial_loss_scale<P> == 0 ? "none" : number(initial_loss_scale<P>).c_str(), number(c.parameters).c_str(),
              number(c.gradients).c_str(), number(c.optimizer).c_str(),
              number(c.parameters + c.gradients + c.optimizer).c_str());
}

// ---- schedule ----

template <schedule_policy P>
void schedule_row(const char* called) {
  const int ranks = 4, micro_batches = 16;
  std::string held;
  for (int r = 0; r < ranks; ++r)
    held += (held.empty() ? "" : ", ") + number(load_of<P>(r, ranks, micro_batches).activations);
  const double idle = testing::idle_of(testing::schedule_timeline<P>(ranks, micro_batches));
  std::printf("| `%s` | %d | %s | %s | %.1f %% |\n", called, chunks_of<P>, held.c_str(), number(idle).c_str(),
              100 * idle / (3 * micro_batches));
}
// A column for each part of a micro-batch's time in one chunk; a whole backward takes two.
template <schedule_policy P>
void schedule_picture(const char* called, int micro_batches) {
  std::printf("```text\n%s, 4 ranks, %d micro-batches\n", called, micro_batches);
  const auto timeline = testing::schedule_timeline<P>(4, micro_batches);
  for (std::size_t r = 0; r < 4; ++r) {
    std::string line;
    for (const testing::timed_action& t : timeline[r]) {
      const auto column = [](double time) { return static_cast<std::size_t>(std::lround(time * chunks_of<P>)); };
      const char letter =
          t.action.chunk == 0 ? "FBIW"[static_cast<int>(t.action.what)] : "fbiw"[static_cast<int>(t.action.what)];
      line.resize(3 * column(t.begin), ' ');
      for (std::size_t c = column(t.begin); c < column(t.end); ++c) {
        const std::string name = letter + std::to_string(t.action.micro_batch);
        line += name + std::string(3 - std::min<std::size_t>(name.size(), 3), ' ');
      }
    }
    std::printf("rank %zu  %s\n", r, line.substr(0, line.find_last_not_of(' ') + 1).c_str());
  }
  std::printf("```\n");
}

// ---- communicator ----

void communicator_rows() {
  constexpr std::int64_t n = 1024;  // floats
  constexpr int ranks = 4;
  trace_log log(ranks);
  traced<threads>::launch(ranks, log, [](traced<threads>& world) {
    std::vector<float> a(n * ranks), b(n * ranks);
    const std::int64_t bytes = n * static_cast<std::int64_t>(sizeof(float));
    world.all_reduce(a.data(), a.data(), n, dtype::f32, reduction::sum).wait();
    world.all_gather(a.data(), b.data(), bytes).wait();
    world.reduce_scatter(b.data(), a.data(), n, dtype::f32, reduction::sum).wait();
    world.all_to_all(a.data(), b.data(), bytes).wait();
    const std::vector<std::int64_t> sizes(ranks, bytes);
    world.all_to_allv(a.data(), sizes.data(), b.data(), sizes.data()).wait();
    world.broadcast(a.data(), bytes, 0).wait();
    request sent = world.send(a.data(), bytes, (world.rank() + 1) % ranks, 0);
    world.recv(b.data(), bytes, (world.rank() + ranks - 1) % ranks, 0).wait();
    sent.wait();
    world.barrier().wait();
  });
  for (const trace_total& t : log.totals(1))  // not broadcast's root
    std::printf("| `%s` | %lld | %lld |\n", t.operation.c_str(), static_cast<long long>(t.bytes),
                static_cast<long long>(t.wire_bytes));
}

}  // namespace

int main() {
  part("sharding members");
  std::printf(
      "| `name` | `shards_parameters` | `shards_gradients` | `shards_optimizer` | `prefetch` | `axis` | `batch_axes` "
      "|\n|---|---|---|---|---|---|---|\n");
  sharding_row<replicated>(), sharding_row<zero1>(), sharding_row<zero2>(), sharding_row<zero3>(),
      sharding_row<hybrid>();
  cost_tables();
  part("precision members");
  std::printf(
      "| `name` | `compute` | `gradient` | `reduce` | `master` | `moment` | `initial_loss_scale` | bytes a parameter "
      "|\n|---|---|---|---|---|---|---|---|\n");
  precision_row<fp32>(), precision_row<bf16_mixed>(), precision_row<bf16_moments>(), precision_row<fp16_mixed>(),
      precision_row<fp64>();
  part("schedule members");
  std::printf("| schedule | chunks | activations held, by rank | idle | of the ideal time |\n|---|---|---|---|---|\n");
  schedule_row<one_f_one_b>("one_f_one_b"), schedule_row<gpipe>("gpipe");
  schedule_row<interleaved<2>>("interleaved<2>"), schedule_row<interleaved<4>>("interleaved<4>");
  schedule_row<zb_h1>("zb_h1"), schedule_row<zbv>("zbv"), schedule_row<dual_pipe_v>("dual_pipe_v");
  part("schedule picture");
  schedule_picture<one_f_one_b>("one_f_one_b", 6);
  part("schedule pictures");
  schedule_picture<interleaved<2>>("interleaved<2>", 4);
  schedule_picture<zb_h1>("zb_h1", 6);
  schedule_picture<zbv>("zbv", 7);
  schedule_picture<dual_pipe_v>("dual_pipe_v", 8);
  part("communicator operations");
  std::printf("| operation | `bytes` | `wire_bytes` |\n|---|---|---|\n");
  communicator_rows();
}
