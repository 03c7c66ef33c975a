// Weights that are read into a store are those that operators use at once, under every sharding policy and precision.
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace {
using namespace weft;

const llama_config small{.layers = 3, .hidden = 24, .heads = 4, .kv_heads = 4, .ffn = 20, .vocab = 37, .max_seq = 8};

// Another number for every element of every parameter, which bf16 holds too: by name and global index alone.
std::vector<float> numbers_of(const parameter_record& p) {
  std::vector<float> out(std::size_t(p.global.elements()));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = float(std::int64_t((i * 7 + p.name.size() * 3) % 17) - 8) / 64 + (p.global.ndim == 1 ? 1 : 0);
  return out;
}

// The loss over the text of a pass, and the one after a step from there.
template <class S>
std::vector<double> losses(const degrees& ranks, bool tied, bool step_before) {
  std::vector<double> out;
  launch<S>(ranks, [&](context& ctx) {
    llama_config config = small;
    config.tied_embeddings = tied;
    llama<S> model(ctx, config);
    parameter_store<cpu_backend, typename S::precision> store(ctx, model.registry(), config_of<typename S::sharding>());
    model.use(store);
    pipeline<llama<S>> stages(ctx, model);
    using ids = typename llama<S>::ids;
    const auto read = [&](int) {
      const auto x = generate<ids>(ctx, {4, 8}, [](std::int64_t i) { return i * 5 % 37; });
      return token_batch<ids>{x, x};
    };
    const auto loss = [&] {
      return finished<typename pipeline<llama<S>>::loss_tensor>(ctx, stages.evaluate(1, read)).sum / 32;
    };
    const auto step = [&](int number) {
      store.begin_step(1);
      stages.train(1, 1, read, [&](int) { store.end_micro_batch(); });
      store.finish_gradients();
      store.step(adamw{}.at(number, 0, 1.0 / 32));  // a rate of 0: what is published are the masters
    };
    loss();  // under zero3 the initial weights are gathered now
    if (step_before) step(1);
    store.load_parameters([](const parameter_record& p) { return numbers_of(p); });
    const double loaded = loss();
    step(2);
    const double after = loss();
    // The masters are the numbers, on every rank, and padding is zero.
    store.each_parameter([&](const parameter_record& p, auto, auto w) {
      const auto expected = numbers_of(p);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < p.local.elements(); ++i) {
        const auto g = p.at.global_index(i);
        wrong += double(w[i]) != (g < 0 ? 0 : double(expected[std::size_t(g)]));
      }
      CHECK(wrong == 0);
    });
    if (ctx.is_first()) out = {loaded, after};
  });
  return out;
}

template <class S>
void check(const degrees& ranks, bool tied, double expected, double tolerance) {
  for (const bool step_before : {false, true}) {
    CAPTURE(step_before);
    const auto got = losses<S>(ranks, tied, step_before);
    CHECK(got.at(0) == doctest::Approx(expected).epsilon(tolerance));
    CHECK(got.at(1) == doctest::Approx(expected).epsilon(tolerance));
  }
}
}  // namespace

TEST_CASE("loaded weights are used at once") {
  for (const bool tied : {false, true}) {
    CAPTURE(tied);
    const double expected = losses<strategy<mesh<>, fp64>>({}, tied, false)[0];
    check<strategy<mesh<dp, tp>>>({.dp = 2, .tp = 2}, tied, expected, 1e-5);
    check<strategy<mesh<dp, tp>, zero1, bf16_mixed>>({.dp = 2, .tp = 2}, tied, expected, 2e-2);
    check<strategy<mesh<dp, tp>, zero2, bf16_mixed>>({.dp = 3}, tied, expected, 2e-2);
    check<strategy<mesh<dp, tp>, replicated, bf16_mixed>>({.dp = 2}, tied, expected, 2e-2);
    check<strategy<mesh<dp, tp>, zero3, sequence_parallel>>({.dp = 2, .tp = 2}, tied, expected, 1e-5);
    check<strategy<mesh<dp, tp>, zero3, bf16_mixed>>({.dp = 2}, tied, expected, 2e-2);
    check<strategy<mesh<pp, dp>, zero1>>({.dp = 2, .pp = 2}, tied, expected, 1e-5);
    check<strategy<mesh<dp, fsdp>, hybrid>>(degrees{.dp = 2}.with<fsdp>(2), tied, expected, 1e-5);
  }
}

namespace {
// Counts the initial values that ranks draw.
struct counted : cpu_backend {
  static inline std::atomic<std::int64_t> drawn{0};
  template <class T>
  static void normal(queue& cores, const placed_slice& at, std::int64_t first, std::int64_t count, double mean,
                     double deviation, const philox& numbers, T* y) {
    drawn += count;
    cpu_backend::normal(cores, at, first, count, mean, deviation, numbers, y);
  }
};
}  // namespace

TEST_CASE("initial weights are drawn when something is read, once, and never of what was loaded before") {
  using S = strategy<mesh<dp>, zero2, bf16_mixed, counted>;
  const auto drawn_by = [](auto&& f) {
    counted::drawn = 0;
    f();
    return counted::drawn.load();
  };
  launch<S>({.dp = 1}, [&](context& ctx) {
    llama<S> model(ctx, small);
    std::int64_t all = 0, table = 0;
    std::optional<parameter_store<counted, bf16_mixed>> store;
    CHECK(drawn_by([&] { store.emplace(ctx, model.registry(), config_of<zero2>()); }) == 0);
    const auto given = [&](const parameter_record& p) -> std::optional<std::vector<float>> {
      all += p.global.elements();
      if (p.name != "embedding") return {};
      table += p.global.elements();
      return numbers_of(p);
    };
    CHECK(drawn_by([&] { store->load_parameters(given); }) == 0);
    REQUIRE(table > 0);
    const auto look = [&] {
      store->each_parameter([&](const parameter_record& p, auto, auto w) {
        if (p.name == "embedding") CHECK(w[5] == numbers_of(p)[5]);
        if (p.global.ndim > 1) CHECK(w[0] != 0);
      });
    };
    CHECK(drawn_by(look) == all - table);  // of one rank, whose weights are its masters, rounded
    CHECK(drawn_by(look) == 0);
    CHECK(drawn_by([&] { store->load_parameters(numbers_of); }) == 0);
    CHECK(drawn_by([&] { store->begin_step(1); }) == 0);
  });
}

TEST_CASE("numbers that don't fit a parameter are refused by its name") {
  using S = strategy<mesh<dp>>;
  launch<S>({.dp = 2}, [](context& ctx) {
    llama<S> model(ctx, small);
    parameter_store<cpu_backend, fp32> store(ctx, model.registry(), config_of<replicated>());
    const auto short_of_one = [](const parameter_record& p) {
      auto numbers = numbers_of(p);
      if (p.name == "layers.1.down") numbers.pop_back();
      return numbers;
    };
    CHECK_THROWS_WITH_AS(store.load_parameters(short_of_one),
                         "parameter layers.1.down has 480 elements, and 479 numbers were given for it", failure);
    store.begin_step(1);
    CHECK_THROWS_WITH_AS(store.load_parameters(numbers_of), doctest::Contains("load_parameters()"), failure);
  });
}
