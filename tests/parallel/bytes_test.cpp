// What every step moves, per sharding policy: calls and bytes of each collective on each axis, exactly as a formula
// says that is written here from the sizes of the parameters, the tokens and the ranks alone.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;

// Sizes that leave padding everywhere: a vocabulary of 36 rows of 24, norms of 24, heads of 6.
const llama_config model_config{
    .layers = 3, .hidden = 24, .heads = 4, .kv_heads = 2, .ffn = 20, .vocab = 36, .max_seq = 12};
constexpr std::int64_t batch_size = 4, length = 12, steps = 2;

struct amount {
  std::int64_t calls = 0, bytes = 0;
};
struct traffic : std::map<std::pair<std::string, std::string>, amount> {  // by (operation, axis)
  void add(const char* operation, const char* axis, int ranks, std::int64_t bytes, std::int64_t times = 1) {
    if (ranks == 1 || times == 0) return;
    amount& a = (*this)[{operation, axis}];
    a.calls += times, a.bytes += bytes * times;
  }
};

enum class recomputation { none, selective, full };
enum class kind { replicated, zero1, zero2, zero3, hybrid };

struct shape_of_run {
  kind policy;
  int pp = 1, dp = 1, fsdp = 1, tp = 1, micro_batches = 1;
  bool sequence_parallel = false;
  recomputation again = recomputation::none;
  std::int64_t compute = 4, reduce = 4;  // bytes an element
  int axes = 2;                          // of the mesh
};

/// One parameter of a rank: its elements, and whether its gradient is pending over tp (norms under sequence
/// parallelism).
struct piece {
  std::int64_t elements;
  bool norm = false;
};

/// What the f-th of the ranks that share storage moves in a step, on pipeline stage `stage`.
traffic formula(const shape_of_run& r, int stage, int f) {
  const llama_config& c = model_config;
  const std::int64_t h = c.hidden, size = c.hidden / c.heads;
  const bool first = stage == 0, last = stage == r.pp - 1;
  const std::int64_t layers = c.layers * (stage + 1) / r.pp - c.layers * stage / r.pp;
  // Units: the embedding, the layers, the head; on each rank 1/tp of all but the norms.
  std::vector<std::vector<piece>> units;
  if (first) units.push_back({{c.vocab * h / r.tp}});
  for (int i = 0; i < layers; ++i)
    units.push_back({{h, true},
                     {c.heads * size * h / r.tp},
                     {c.kv_heads * size * h / r.tp},
                     {c.kv_heads * size * h / r.tp},
                     {h * c.heads * size / r.tp},
                     {h, true},
                     {c.ffn * h / r.tp},
                     {c.ffn * h / r.tp},
                     {h * c.ffn / r.tp}});
  if (last) units.push_back({{h, true}, {c.vocab * h / r.tp}});

  const bool nested = r.policy == kind::hybrid;
  const char* storage = nested ? "fsdp" : "dp";
  const int parts = nested ? r.fsdp : r.dp;
  const bool cut = parts > 1 && r.policy != kind::replicated;  // storage is split

  traffic out;
  std::int64_t norms = 0;  // this rank's elements of gradients that are norms; not padding
  std::vector<std::int64_t> padded;
  for (const auto& unit : units) {
    // Each parameter begins at a multiple of 16; a unit is a multiple of 16 for each rank.
    std::int64_t n = 0;
    for (const piece& p : unit) n += (p.elements + 15) / 16 * 16;
    n = (n + 16 * parts - 1) / (16 * parts) * (16 * parts);
    padded.push_back(n);
    const std::int64_t from = cut ? n / parts * f : 0, to = cut ? n / parts * (f + 1) : n;
    std::int64_t begin = 0;
    for (const piece& p : unit) {
      for (std::int64_t i = begin; i < begin + p.elements; ++i) norms += p.norm && i >= from && i < to;
      begin += (p.elements + 15) / 16 * 16;
    }
  }
  const std::int64_t all = [&] {
    std::int64_t sum = 0;
    for (const std::int64_t n : padded) sum += n;
    return sum;
  }();
  const std::int64_t m = r.micro_batches, count = layers + 2;

  // Parameters and their gradients.
  const auto each_unit = [&](const char* operation, std::int64_t width, std::int64_t times) {
    for (const std::int64_t n : padded) out.add(operation, storage, parts, n * width, times);
  };
  switch (r.policy) {
    case kind::replicated:
      each_unit("all_reduce", r.reduce, 1);
      break;
    case kind::zero1:
      each_unit("reduce_scatter", r.reduce, 1), each_unit("all_gather", r.compute, 1);
      break;
    case kind::zero2:
      each_unit("reduce_scatter", r.reduce, m), each_unit("all_gather", r.compute, 1);
      break;
    case kind::zero3:
    case kind::hybrid: {
      each_unit("reduce_scatter", r.reduce, m);
      // Once for the forward and once for the backward; two buffers keep the two units at which the direction turns.
      const std::int64_t at_the_end = padded[padded.size() - 1] + padded[padded.size() - 2],
                         at_the_start = padded[0] + padded[1];
      out.add("all_gather", storage, parts, ((2 * all - at_the_end) * m - at_the_start * (m - 1)) * r.compute);
      if (parts > 1) out[{"all_gather", storage}].calls += 2 * m * count - 2 * m - 2 * (m - 1) - 1;
    }
  }
  if (nested)  // each unit's share of the sums
    for (const std::int64_t n : padded) out.add("all_reduce", "dp", r.dp, n / parts * r.reduce);
  if (r.sequence_parallel && norms > 0) out.add("all_reduce", "tp", r.tp, norms * r.reduce);

  // Activations: [tokens, hidden], per micro-batch.
  const std::int64_t tokens = batch_size / (r.dp * r.fsdp) * length, x = tokens * h * r.compute;
  const std::int64_t ways = 4 * layers + first + last;  // into blocks and out of them: two each a layer, and the ends
  // Of a layer's forward, run once more: both all-gathers; and of both sums, full recomputation runs the first (nobody
  // looks at what a layer ends with), selective keeps it, since it was received from others.
  const std::int64_t entered = r.again == recomputation::none ? 0 : 2 * layers;
  const std::int64_t left = r.again == recomputation::full ? layers : 0;
  if (r.sequence_parallel) {
    out.add("all_gather", "tp", r.tp, x, m * (ways + entered));
    out.add("reduce_scatter", "tp", r.tp, x, m * (ways + left));
  } else {
    out.add("all_reduce", "tp", r.tp, x, m * (ways + left));
  }
  // Cross-entropy in float: each token's largest logit; then its sum of exponentials and its target's logit.
  if (last) out.add("all_reduce", "tp", r.tp, 4 * tokens, m), out.add("all_reduce", "tp", r.tp, 2 * 4 * tokens, m);
  // From stage to stage, and their gradients back.
  const std::int64_t stream = r.sequence_parallel ? x / r.tp : x, neighbours = !first + !last;
  out.add("send", "pp", r.pp, stream, m * neighbours);
  out.add("recv", "pp", r.pp, stream, m * neighbours);

  // The gradient norm: a double for each set of axes, over the axes that any parameter is cut along.
  const std::int64_t squares = 8 << (r.axes + (r.pp > 1));  // with a pipeline, its two ends are an axis too
  out.add("all_reduce", "pp", r.pp, squares), out.add("all_reduce", "tp", r.tp, squares);
  if (cut) out.add("all_reduce", storage, parts, squares);
  // The loss: its sum and count, over the axes that split tokens, and from the last stage.
  out.add("all_reduce", "pp", r.pp, 16), out.add("all_reduce", "dp", r.dp, 16),
      out.add("all_reduce", "fsdp", r.fsdp, 16);
  return out;
}

/// Ranks of the group that a trace calls so.
std::int64_t degree_named(const degrees& mesh, const std::string& axis, int ranks) {
  if (axis == "dp") return mesh.of<dp>();
  if (axis == "tp") return mesh.of<tp>();
  if (axis == "pp") return mesh.of<pp>();
  if (axis == fsdp::name) return mesh.of<fsdp>();
  require(axis == "world" || axis == "pipeline_ends", "a collective of axis ", axis);
  return axis == "world" ? ranks : 2;
}

/// Trains under S, and holds what every rank moved to the formula.
template <class S>
void check(shape_of_run r) {
  r.sequence_parallel = S::sequence_parallel;
  if (std::same_as<typename S::checkpointing, checkpoint_full>) r.again = recomputation::full;
  if (std::same_as<typename S::checkpointing, checkpoint_selective>) r.again = recomputation::selective;
  r.compute = sizeof(typename S::precision::compute), r.reduce = sizeof(typename S::precision::reduce);
  r.axes = S::mesh::ndim;
  const degrees mesh = degrees{.dp = r.dp, .tp = r.tp, .pp = r.pp}.with<fsdp>(r.fsdp);
  const int ranks = static_cast<int>(mesh.product());
  trace_log log(ranks);
  std::vector<std::pair<int, int>> place(static_cast<std::size_t>(ranks));  // stage, part of the storage
  launch<S>(mesh,
            [&](context& ctx) {
              place[static_cast<std::size_t>(ctx.rank().here())] = {ctx.index<pp>().here(),
                                                                    ctx.index<typename S::sharding::axis>().here()};
              llama<S> model(ctx, model_config);
              parameter_store<cpu_backend, typename S::precision> store(ctx, model.registry(),
                                                                        config_of<typename S::sharding>());
              model.use(store);
              pipeline<llama<S>> stages(ctx, model);
              for (int step = 1; step <= steps; ++step) {
                store.begin_step(r.micro_batches);
                const auto read = [&](int micro) {
                  using ids = typename llama<S>::ids;
                  const auto x = generate<ids>(ctx, {batch_size, length}, [&](std::int64_t i) {
                    return (i * 7 + step + micro) % model_config.vocab;
                  });
                  return token_batch<ids>{x, x};
                };
                const loss_sums own = stages.train(r.micro_batches, 1, read, [&](int) { store.end_micro_batch(); });
                CHECK(finished<typename pipeline<llama<S>>::loss_tensor>(ctx, own).count ==
                      static_cast<double>(r.micro_batches * batch_size * length));
                store.finish_gradients();
                CHECK(store.gradient_norm() > 0);
                store.step(adamw{}.at(step, 1e-3));
              }
            },
            {.trace = &log, .check = false});

  std::map<std::pair<std::string, std::string>, std::pair<std::int64_t, std::int64_t>>
      over_all;  // bytes and wire bytes
  for (int rank = 0; rank < ranks; ++rank) {
    const auto [stage, part] = place[static_cast<std::size_t>(rank)];
    traffic expected = formula(r, stage, part), found;
    for (auto& entry : expected) entry.second.calls *= steps, entry.second.bytes *= steps;
    expected.add("all_reduce", "world", ranks, 8 * (r.axes + (r.pp > 1)));  // once: which axes the norm's sums cross
    for (const trace_total& t : log.totals(rank)) {
      found[{t.operation, t.axis}] = {t.calls, t.bytes};
      auto& sum = over_all[{t.operation, t.axis}];
      sum.first += t.bytes, sum.second += t.wire_bytes;
    }
    CAPTURE(rank);
    for (const auto& entry : expected) {
      CAPTURE(entry.first.first);
      CAPTURE(entry.first.second);
      CHECK(found[entry.first].calls == entry.second.calls);
      CHECK(found[entry.first].bytes == entry.second.bytes);
    }
    for (const auto& entry : found) {
      CAPTURE(entry.first.first);
      CAPTURE(entry.first.second);
      CHECK(expected.count(entry.first) == 1);
    }
  }
  // Of P ranks' buffers, 1 - 1/P comes from others: once where pieces are gathered or summed, twice where both.
  for (const auto& entry : over_all) {
    if (entry.first.first == "send" || entry.first.first == "recv") continue;  // what is received is the buffer
    const std::int64_t p = degree_named(mesh, entry.first.second, ranks),
                       ways = entry.first.first == "all_reduce" ? 2 : 1;
    CHECK(entry.second.second * p == ways * (p - 1) * entry.second.first);
  }
}

template <class... Policies>
using on_two = strategy<mesh<dp, tp>, Policies...>;
template <class... Policies>
using on_stages = strategy<mesh<pp, dp, tp>, Policies...>;
template <class... Policies>
using on_three = strategy<mesh<dp, fsdp, tp>, hybrid, Policies...>;

/// A policy alone on dp, with gradient accumulation, with tp; then with other policies beside it.
template <class Sharding>
void check_all(kind policy) {
  check<on_two<Sharding>>({.policy = policy, .dp = 4});
  check<on_two<Sharding>>({.policy = policy, .dp = 2, .micro_batches = 3});
  check<on_two<Sharding>>({.policy = policy, .dp = 2, .tp = 2, .micro_batches = 2});
  check<on_two<Sharding>>({.policy = policy, .tp = 2});
  check<on_two<Sharding, sequence_parallel>>({.policy = policy, .dp = 2, .tp = 2, .micro_batches = 2});
}

}  // namespace

TEST_CASE("bytes of a step are the formula's: replicated") { check_all<replicated>(kind::replicated); }
TEST_CASE("bytes of a step are the formula's: zero1") { check_all<zero1>(kind::zero1); }
TEST_CASE("bytes of a step are the formula's: zero2") { check_all<zero2>(kind::zero2); }
TEST_CASE("bytes of a step are the formula's: zero3") {
  check_all<zero3>(kind::zero3);
  check<on_two<zero3, checkpoint_full>>({.policy = kind::zero3, .dp = 2, .tp = 2, .micro_batches = 2});
  check<on_two<zero3, checkpoint_full, sequence_parallel>>({.policy = kind::zero3, .dp = 2, .tp = 2});
  check<on_two<zero3, checkpoint_selective>>({.policy = kind::zero3, .dp = 2, .tp = 2, .micro_batches = 2});
  check<on_two<zero3, checkpoint_selective, sequence_parallel>>({.policy = kind::zero3, .dp = 2, .tp = 2});
}
TEST_CASE("bytes of a step are the formula's: hybrid") {
  for (const int micro_batches : {1, 3}) {
    check<on_three<>>({.policy = kind::hybrid, .dp = 2, .fsdp = 2, .micro_batches = micro_batches});
    check<on_three<>>({.policy = kind::hybrid, .fsdp = 4, .micro_batches = micro_batches});
    check<on_three<sequence_parallel>>(
        {.policy = kind::hybrid, .dp = 2, .fsdp = 2, .tp = 2, .micro_batches = micro_batches});
  }
}
TEST_CASE("bytes of a step are the formula's: a pipeline") {  // three layers on two stages: the embedding and one, two
                                                              // and the head
  check<on_stages<>>({.policy = kind::replicated, .pp = 2, .micro_batches = 3});
  check<on_stages<zero1>>({.policy = kind::zero1, .pp = 3, .dp = 2, .micro_batches = 4});
  check<on_stages<zero2, sequence_parallel, checkpoint_full>>(
      {.policy = kind::zero2, .pp = 2, .dp = 2, .tp = 2, .micro_batches = 2});
}
TEST_CASE("bytes of a step are the formula's: 16-bit weights travel in 2 bytes, their gradients in 4") {
  check<on_two<zero3, bf16_mixed>>({.policy = kind::zero3, .dp = 2, .tp = 2, .micro_batches = 2});
}

namespace {
struct sends_16_bits {  // float everywhere, but gradients travel in bf16
  static constexpr std::string_view name = "sends 16 bits";
  using compute = float;
  using gradient = float;
  using reduce = bf16;
  using master = float;
};
}  // namespace

TEST_CASE("bug: the reduction type is silently ignored (gradients travel in it along every axis)") {
  check<on_two<replicated, sends_16_bits>>({.policy = kind::replicated, .dp = 4, .micro_batches = 2});
  check<on_two<zero1, sends_16_bits>>({.policy = kind::zero1, .dp = 4, .micro_batches = 2});
  check<on_two<zero3, sends_16_bits, sequence_parallel>>({.policy = kind::zero3, .dp = 2, .tp = 2, .micro_batches = 2});
  check<on_three<sends_16_bits, sequence_parallel>>({.policy = kind::hybrid, .dp = 2, .fsdp = 2, .tp = 2});
}
