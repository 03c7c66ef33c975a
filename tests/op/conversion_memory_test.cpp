// What a conversion returns is an activation in the ledger; buffers are what it needs meanwhile.
#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;

// An invariant value converted to From and then to P: what the ledger holds more by the second, by category.
template <class From, class P>
void check(const char* what) {
  launch<strategy<mesh<tp>>>({.tp = 2}, [&](context& ctx) {
    const auto x = convert<From>(ones<tensor<float, dims<batch, seq, hidden>>>(ctx, {8, 16, 6}));
    const auto& held = ctx.memory.ledger().current;
    const auto activations = static_cast<std::size_t>(memory::activations),
               buffers = static_cast<std::size_t>(memory::buffers);
    const std::size_t before = held[activations];
    const auto y = convert<P>(x);
    CAPTURE(what);
    CHECK(held[buffers] == 0);
    CHECK(held[activations] - before >= static_cast<std::size_t>(untyped(y).held().bytes()));
  });
}
}  // namespace

TEST_CASE("what a conversion returns is an activation, whichever dimension it gathers") {
  check<shard<batch, tp>, shard<seq, tp>>("all-to-all, batch to seq");
  check<shard<seq, tp>, shard<batch, tp>>("all-to-all, seq to batch");
  check<shard<hidden, tp>, shard<seq, tp>>("all-to-all, hidden to seq");
  check<shard<batch, tp>, invariant<tp>>("all-gather, batch");
  check<shard<seq, tp>, invariant<tp>>("all-gather, seq");
  check<partial<tp>, shard<batch, tp>>("reduce-scatter, batch");
  check<partial<tp>, shard<seq, tp>>("reduce-scatter, seq");
  check<partial<tp>, invariant<tp>>("all-reduce");
  check<invariant<tp>, shard<hidden, tp>>("slice");
}
