// AdamW's moments in bf16, rounded stochastically: without bias, the same bits whoever stores an element, half the
// bytes; and where rounding to nearest would stall, they don't.
#include "rounded_moments.hpp"

#include <cmath>

#include <weft/plan/rank.hpp>
#include <weft/policy/sharding.hpp>

using namespace weft;
using weft_test::rounded_moments;

TEST_CASE("the mean of x rounded stochastically is x, and what bf16 has stays") {
  for (const float x : {1.003f, -1.003f, 3.1415926f, -2.7e-12f, 1e30f, 0x1.fffp0f, 0x1p-140f}) {
    double sum = 0;  // of all 2^16 chances: exact, since every term is a multiple of the last place of a bf16
    for (std::uint32_t chance = 0; chance < 65536; ++chance)
      sum += static_cast<double>(static_cast<float>(stochastically_rounded(x, chance)));
    CHECK(sum / 65536 == static_cast<double>(x));
  }
  for (const float x : {0.0f, -0.0f, 1.0f, -1.5f, 0x1p-133f, INFINITY})
    for (const std::uint32_t chance : {0u, 1u, 65535u})
      CHECK(std::bit_cast<std::uint32_t>(static_cast<float>(stochastically_rounded(x, chance))) ==
            std::bit_cast<std::uint32_t>(x));
  CHECK(std::isnan(static_cast<float>(stochastically_rounded(NAN, 65535))));
}

TEST_CASE("both moments' halves of the words of many elements and steps have that mean") {
  constexpr std::int64_t n = 1 << 16;
  const float x = 1 + 0x1.2p-9f;  // between 1 and 1 + 2^-7
  const stochastic_rounding of{{1, {n}, {n}, {0}, {n}}, 0, {7, stream_of("w")}};
  for (const bool upper : {false, true}) {
    double sum = 0;
    for (std::int64_t step = 1; step <= 4; ++step) {
      detail::rounding_words words{of.of_step(step).numbers};
      for (std::int64_t i = 0; i < n; ++i)
        sum += static_cast<double>(static_cast<float>(stochastically_rounded(x, words.word(i) >> (upper ? 16 : 0))));
    }
    // A draw deviates by at most half a spacing of 2^-7: five deviations of the mean of 4 n draws.
    CHECK(std::fabs(sum / (4 * n) - static_cast<double>(x)) < 5 * 0x1p-8 / std::sqrt(4.0 * n));
  }
}

TEST_CASE("moments in bf16 have the same bits under every sharding policy and mesh") {
  const auto one = rounded_moments<strategy<mesh<dp, tp>, bf16_moments>>({});
  CHECK(one.size() == 8);
  int rounded = 0;
  for (const int bits : one.at("matrix first")) rounded += bits > 0 && bits % 2;
  CHECK(rounded > 20);  // they aren't few round numbers
  CHECK(rounded_moments<strategy<mesh<dp, tp>, bf16_moments>>({.dp = 2, .tp = 2}) == one);
  CHECK(rounded_moments<strategy<mesh<dp, tp>, bf16_moments, zero1>>({.dp = 4}) == one);
  CHECK(rounded_moments<strategy<mesh<dp, tp>, bf16_moments, zero2>>({.dp = 2, .tp = 3}) == one);
  CHECK(rounded_moments<strategy<mesh<dp, tp>, bf16_moments, zero3>>({.dp = 4, .tp = 2}) == one);
}

TEST_CASE("moments in bf16 of more tensors than a kernel is given at once have those bits too") {
  constexpr std::size_t many = rounding_ranges::most + 7;
  const auto one = rounded_moments<strategy<mesh<dp, tp>, bf16_moments>>({}, 3, 0, many);
  CHECK(one.size() == 2 * (2 + many));
  CHECK(one.at("bias 0 first") != one.at("bias 38 first"));  // of the same gradients, by their own words
  CHECK(rounded_moments<strategy<mesh<dp, tp>, bf16_moments, zero1>>({.dp = 3, .tp = 2}, 3, 0, many) == one);
}

TEST_CASE("the words of several tensors: parts and runs of them are those of each") {
  rounding_ranges all;
  const auto of = [](std::uint64_t stream) { return stochastic_rounding{{1, {9}, {90}, {50}, {8}}, 2, {5, stream}}; };
  all.add(0, of(1)), all.add(7, of(2)), all.add(20, of(3));
  const auto says = [](const rounding_ranges& x, std::int64_t begin, std::int64_t end) {
    std::vector<std::array<std::int64_t, 4>> out;
    x.runs(begin, end, [&](std::int64_t first, std::int64_t last, const stochastic_rounding& r) {
      out.push_back({first, last, static_cast<std::int64_t>(r.numbers.stream), r.first});
    });
    return out;
  };
  using runs = std::vector<std::array<std::int64_t, 4>>;
  CHECK(says(all, 0, 30) == runs{{0, 7, 1, 2}, {7, 20, 2, 2}, {20, 30, 3, 2}});
  CHECK(says(all, 3, 8) == runs{{3, 7, 1, 5}, {7, 8, 2, 2}});
  CHECK(says(all, 7, 20) == runs{{7, 20, 2, 2}});
  CHECK(says(all.part(3, 17), 0, 17) == runs{{0, 4, 1, 5}, {4, 17, 2, 2}});
  CHECK(says(all.part(9, 2), 0, 2) == runs{{0, 2, 2, 4}});
  CHECK(says(all.part(25, 5), 1, 5) == runs{{1, 5, 3, 8}});
  int range = 0;
  for (std::int64_t i = 0; i < 30; ++i) CHECK(all.of(i, range).first + i == (i < 7 ? 2 + i : i < 20 ? i - 5 : i - 18));
  const auto later = says(all.of_step(4), 6, 8), sooner = says(all.of_step(3), 6, 8);
  CHECK(later[0][2] == static_cast<std::int64_t>(of(1).of_step(4).numbers.stream));
  CHECK(later[1][2] == static_cast<std::int64_t>(of(2).of_step(4).numbers.stream));
  CHECK(later[1][2] != sooner[1][2]);
  rounding_ranges most;
  for (int r = 0; r < rounding_ranges::most; ++r) {
    CHECK(!most.full());
    most.add(r, of(1));
  }
  CHECK(most.full());
}

TEST_CASE("where moments rounded to nearest stall, stochastically rounded ones don't") {
  // A gradient of 100 at first, then that of (w - 1)^2 / 2. The second moment falls by a thousandth a step, less than
  // half of what bf16 can tell: to nearest it stays, and w hardly moves.
  constexpr std::int64_t n = 64;
  constexpr int steps = 3000;
  cpu::team one;
  const adamw rule{.lr = 2e-3, .beta2 = 0.999, .weight_decay = 0};
  struct state {
    std::vector<float> w = std::vector<float>(n), m = w, v = w;
    std::vector<bf16> m16 = std::vector<bf16>(n), v16 = m16;
    float distance() const {
      float sum = 0;
      for (const float x : w) sum += std::fabs(x - 1);
      return sum / n;
    }
  } exact, nearest, stochastic;
  const stochastic_rounding rounding{{1, {n}, {n}, {0}, {n}}, 0, {1, stream_of("w")}};
  const auto gradient = [](const state& s, int step) {
    std::vector<float> g;
    for (const float w : s.w) g.push_back(step == 1 ? -100.0f : w - 1);
    return g;
  };
  for (int step = 1; step <= steps; ++step) {
    const adamw_step now = rule.at(step, rule.lr);
    for (state* s : {&exact, &nearest})
      cpu::adamw<float, float, float>(one, now, n, decay_ranges(), s->w.data(), s->m.data(), s->v.data(),
                                      gradient(*s, step).data(), nullptr);
    for (auto* moment : {&nearest.m, &nearest.v})
      for (float& x : *moment) x = static_cast<float>(bf16(x));
    cpu::adamw<float, float>(one, now, n, decay_ranges(), stochastic.w.data(), stochastic.m16.data(),
                             stochastic.v16.data(), gradient(stochastic, step).data(), nullptr, rounding.of_step(step));
  }
  CHECK(nearest.v == std::vector<float>(n, static_cast<float>(bf16(static_cast<float>(1 - 0.999) * 100 * 100))));
  double mean = 0, want = 0;
  for (std::size_t i = 0; i < n; ++i)
    mean += static_cast<double>(static_cast<float>(stochastic.v16[i])) / n, want += static_cast<double>(exact.v[i]) / n;
  // A step's rounding has no bias and deviates by at most half a spacing, 2^-8 of v: after k steps by 2^-8 sqrt(k) of
  // it. Five deviations of the mean of n.
  CHECK(std::fabs(mean / want - 1) < 5 * 0x1p-8 * std::sqrt(double(steps)) / std::sqrt(double(n)));
  CHECK(nearest.distance() > 2 * exact.distance());
  CHECK(std::fabs(stochastic.distance() - exact.distance()) < 0.1f * exact.distance());
}

TEST_CASE("the ledger and the plan have half the bytes of moments") {
  constexpr std::int64_t n = 1 << 16;
  const auto bytes = []<class S>(context& ctx, S) {
    parameter_registry registry;
    registry.begin_unit("unit");
    weight<S, dims<hidden>> w;
    registry.add(ctx, w, "w", {1, {n}}, {0, 1});
    const parameter_store<typename S::backend, typename S::precision> store(ctx, registry,
                                                                            config_of<typename S::sharding>());
    return ctx.memory.ledger().current[static_cast<std::size_t>(memory::optimizer)];
  };
  const auto both = [&]<class Precision>(Precision, std::size_t want) {
    using S = strategy<mesh<dp>, zero1, Precision>;
    launch<S>({.dp = 2}, [&](context& ctx) { CHECK(bytes(ctx, S()) == want); });
    planned_rank<S> plan({.dp = 2}, 0);
    CHECK(bytes(plan.ctx(), planned<S>()) == want);
  };
  both(bf16_mixed(), n / 2 * (4 + 4 + 4));
  both(bf16_moments(), n / 2 * (4 + 2 + 2));
}

TEST_CASE("a step without its number is refused before anything is done, where moments are rounded by it") {
  using S = strategy<mesh<dp>, bf16_moments>;
  using x_type = basic_tensor<bf16, dims<batch, hidden>, place<shard<batch, dp>>>;
  launch<S>({}, [](context& ctx) {
    parameter_registry registry;
    weight<S, dims<hidden>> w;
    registry.begin_unit("unit");
    registry.add(ctx, w, "w", {1, {3}}, {0, 1});
    parameter_store<cpu_backend, bf16_moments> store(ctx, registry, config_of<S::sharding>());
    store.begin_step(1);
    backward(sum(in_unit(
        ctx, store, 0, [&](const x_type& in) -> x_type { return in * w; }, normal<x_type>(ctx, "x", {1, 3}))));
    store.end_micro_batch();
    store.finish_gradients();
    adamw_step by_hand{1e-3, 0.9, 0.95, 1e-8, 0.1, 0.1, 0.05, 1};
    CHECK_THROWS_WITH_AS(store.step(by_hand),
                         "moments in bf16 are rounded by the step's number, which is 0; take the step from "
                         "adamw::at(number, lr)",
                         failure);
    by_hand.number = 1;
    store.step(by_hand);  // the gradients weren't used up
  });
}
