// Prints the generated parts of docs/policies/checkpointing.md: the shipped
// policies' members, what they keep of a layer of Llama and what they run
// again, measured. Invariant: every number is read from a policy, from what
// operators say that they cost, from a rank's memory ledger or from a trace of
// its collectives. Output as policy_tables.cpp's.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <weft/weft.hpp>

namespace {
using namespace weft;

constexpr std::int64_t sequences = 1, length = 128, width = 128, inner = 384;

// What `keeps` was asked on the first rank: the operators of a layer's forward,
// in order.
std::vector<op_cost> asked;
bool listening = false;
thread_local bool first_rank = false;

struct listing {
  static constexpr std::string_view name = "listing";
  static constexpr bool recomputes = true;
  static bool keeps(const op_cost& cost) {
    if (listening && first_rank) asked.push_back(cost);
    return checkpoint_selective::keeps(cost);
  }
};

struct held {
  double kept = 0,
         received = 0;  // bytes: activations after the forward; what came from
                        // other ranks in forward and backward
};

// A step of a Llama with so many layers under sequence parallelism, which one
// rank does without.
template <class Checkpointing>
held run(int layers, int ranks) {
  using S = strategy<mesh<tp>, Checkpointing, sequence_parallel>;
  held out;
  trace_log log(ranks);
  launch<S>({.tp = ranks},
            [&](context& ctx) {
              first_rank = ctx.is_first();
              llama<S> model(
                  ctx, {.layers = layers, .hidden = width, .heads = 4, .ffn = inner, .vocab = 64, .max_seq = length});
              parameter_store<cpu_backend, fp32> store(ctx, model.registry(), config_of<replicated>());
              model.use(store);
              using ids = typename llama<S>::ids;
              const auto x = generate<ids>(ctx, {sequences, length}, [](std::int64_t i) { return i * 5 % 64; });
              store.begin_step(1);
              const auto l = cross_entropy(model(x), x);
              const double kept =
                  static_cast<double>(ctx.memory.ledger().current[static_cast<std::size_t>(memory::activations)]);
              backward(l.sum);
              if (ctx.is_first()) out.kept = kept;
            },
            {.trace = &log});
  for (const trace_total& t : log.totals(0)) out.received += t.axis == "tp" ? static_cast<double>(t.wire_bytes) : 0;
  return out;
}

template <checkpointing_policy P>
void members_row(const char* type) {
  std::printf("| `%s` | `%s` | %s |", type, std::string(P::name).c_str(), P::recomputes ? "yes" : "no");
  if constexpr (requires { P::limits; })
    std::printf(
        " from %d operations a byte kept, or %d bytes received for 100 "
        "kept |\n",
        P::limits.flops_per_byte, P::limits.received_percent);
  else
    std::printf(" %s |\n", P::keeps(op_cost{}) ? "everything" : "nothing");
}

struct share {
  double kept[2], received[2];
};
template <checkpointing_policy P>
share a_layer() {
  share out{};
  for (const int many : {0, 1}) {
    const int ranks = many ? 4 : 1;
    const held two = run<P>(2, ranks), three = run<P>(3, ranks);
    out.kept[many] = three.kept - two.kept, out.received[many] = three.received - two.received;
  }
  return out;
}
void row(const char* name, const share& s, const share& none) {
  const auto element = [](double bytes, int ranks) { return bytes / (4.0 * sequences * length * width / ranks); };
  std::printf("| `%s` | %.2f | %.0f %% | %.2f | %.0f %% | %.0f |\n", name, element(s.kept[0], 1),
              100 * s.kept[0] / none.kept[0], element(s.kept[1], 4), 100 * s.kept[1] / none.kept[1],
              element(s.received[1], 4));
}

}  // namespace

int main() {
  std::printf(
      "== checkpointing members\n| type | `name` | `recomputes` | "
      "`keeps` |\n|---|---|---|---|\n");
  members_row<checkpoint_none>("checkpoint_none"), members_row<checkpoint_full>("checkpoint_full");
  members_row<checkpoint_selective>("checkpoint_selective");
  members_row<offloaded<>>("offloaded<P>");

  std::printf(
      "== checkpointing costs\n| policy | kept, one rank | of none | "
      "kept, each of four | of none | received, each of four "
      "|\n|---|---|---|---|---|---|\n");
  const share none = a_layer<checkpoint_none>();
  row("checkpoint_none", none, none);
  row("checkpoint_selective", a_layer<checkpoint_selective>(), none);
  row("checkpoint_full", a_layer<checkpoint_full>(), none);

  std::printf(
      "== checkpointing operators\n| operator | operations a byte kept "
      "| bytes received for 100 kept | `checkpoint_selective::keeps` "
      "|\n|---|---|---|---|\n");
  listening = true;
  run<listing>(1, 4);
  listening = false;
  for (const op_cost& c : asked) {
    const double bytes = static_cast<double>(c.kept_bytes);
    std::printf("| %s | %.1f | %.0f | %s |\n", std::string(c.name).c_str(), c.flops / bytes, 100 * c.received / bytes,
                checkpoint_selective::keeps(c) ? "yes" : "no");
  }
}
