// Metrics of held-out text beside the loss: the same numbers on every mesh and under every sharding policy, told to the
// callbacks, the log and the run's folder.
#include <cmath>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

#include "../said_by.hpp"
#include "../temporary.hpp"

using namespace weft;

namespace {

const llama_config small{.layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 64, .vocab = 47, .max_seq = 12};

// Held-out rows whose targets are what the tokens mostly lead to; some have none.
struct counted {
  context* ctx;

  template <class Ids>
  token_batch<Ids> train(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t seq) const {
    const auto token = [=](std::int64_t i) { return (step * 3 + (first + i / seq) * 7 + i % seq * 5) % small.vocab; };
    return {generate<Ids>(*ctx, {count, seq}, token), generate<Ids>(*ctx, {count, seq}, [=](std::int64_t i) {
              return (first * seq + i) % 7 == 3 ? -1 : token(i + 1 - (i % seq == seq - 1));
            })};
  }
  template <class Ids>
  token_batch<Ids> validation(std::int64_t first, std::int64_t count, std::int64_t seq) const {
    return train<Ids>(0, first, count, seq);
  }
  bool can_validate(std::int64_t) const { return true; }
};

// The mean logit of counted targets, of a gathered vocabulary.
struct mean_logit {
  static constexpr std::string_view name = "mean logit";
  auto operator()(const auto& logits, const auto& targets) const {
    const auto counts = cast<float>(targets >= 0.0);
    return loss{sum(mean<vocab>(cast<float>(all_gather<tp>(logits))) * counts), sum(counts)};
  }
};
// The mean square of all logits, of which a rank under tp has a slice: both sums are pending over it.
struct spread {
  static constexpr std::string_view name = "spread";
  auto operator()(const auto& logits, const auto&) const {
    const auto x = cast<float>(logits);
    return loss{sum(square(x)), sum(x * 0.0 + 1.0)};
  }
};

struct noting final : training_callback {
  std::vector<std::vector<metric_value>> seen;
  std::vector<double> losses;
  void after_validation(std::int64_t, double loss) override { losses.push_back(loss); }
  void after_metrics(std::int64_t, const std::vector<metric_value>& m) override { seen.push_back(m); }
};

struct told {
  std::vector<std::vector<metric_value>> seen;  // on the first rank
  std::vector<double> losses;
  training_result result;
  std::string log, result_file;
};

template <class S>
told run(const degrees& ranks, int micro_batches = 2) {
  told out;
  const weft_test::temporary_folder folder;
  launch<S>(ranks, [&](context& ctx) {
    llama<S> model(ctx, small);
    trainer t(ctx, model, adamw{.lr = 4e-3}, token_cross_entropy{},
              metric_list{token_accuracy{}, mean_logit{}, spread{},
                          named_metric{"tokens a row", [](const auto&, const auto& targets) {
                                         const auto counts = cast<float>(targets >= 0.0);
                                         return loss{sum(counts), sum(counts) * (1.0 / 12)};
                                       }}});
    noting callback;
    const training_result r = t.run(counted{&ctx}, {.steps = 6,
                                                    .batch = 8,
                                                    .micro_batches = micro_batches,
                                                    .validate_every = 3,
                                                    .validation_sequences = 8,
                                                    .print = false,
                                                    .folder = folder.path(),
                                                    .callbacks = {&callback}});
    // Every rank is told the same.
    for (const auto& m : callback.seen)
      for (const metric_value& v : m) {
        double both[2] = {v.value, -v.value};
        ctx.world.host().all_reduce(both, both, 2, dtype::f64, reduction::max, {"a test"}).wait();
        CHECK((both[0] == -both[1] || std::isnan(v.value)));
      }
    if (ctx.is_first()) out.seen = callback.seen, out.losses = callback.losses, out.result = r;
  });
  out.log = read_file(folder / "metrics.jsonl"), out.result_file = read_file(folder / "result.json");
  return out;
}

template <class... Policies>
using with = strategy<mesh<dp, pp, tp>, fp64, Policies...>;

void same(const told& one, const told& other) {
  REQUIRE(other.seen.size() == one.seen.size());
  for (std::size_t i = 0; i < one.seen.size(); ++i) {
    REQUIRE(other.seen[i].size() == one.seen[i].size());
    CHECK(other.losses[i] == doctest::Approx(one.losses[i]).epsilon(1e-9));
    for (std::size_t k = 0; k < one.seen[i].size(); ++k) {
      CHECK(other.seen[i][k].name == one.seen[i][k].name);
      // Counts are whole numbers; the others are sums in fp32 of a few hundred numbers.
      CHECK(other.seen[i][k].value == doctest::Approx(one.seen[i][k].value).epsilon(k == 0 ? 1e-12 : 1e-5));
    }
  }
}

}  // namespace

TEST_CASE("metrics are one rank's under every sharding policy, tensor parallelism and on stages") {
  const told one = run<with<replicated>>({});
  REQUIRE(one.seen.size() == 2);
  CHECK(one.seen[0][0].name == "accuracy");
  CHECK(one.seen[1][0].value > one.seen[0][0].value);  // it learns
  CHECK(one.seen[0][3].value == doctest::Approx(12));
  same(one, run<with<replicated>>({}, 1));
  same(one, run<with<replicated>>({.dp = 4}));
  same(one, run<with<zero1>>({.dp = 2}));
  same(one, run<with<zero2>>({.dp = 2, .tp = 2}));
  same(one, run<with<zero3>>({.dp = 2, .pp = 2}));
  same(one, run<with<zero3, sequence_parallel>>({.dp = 2, .tp = 2}));
  same(one, run<with<zero3, sequence_parallel, chunked_loss<3>>>({.dp = 2, .tp = 2}));
  same(one, run<with<interleaved<2>>>({.tp = 2}));
}

TEST_CASE("accuracy is the share of targets that have the largest logit") {
  using S = strategy<mesh<dp, tp>, fp32>;
  using logits = tensor<float, dims<batch, seq, vocab>, shard<batch, dp>, shard<vocab, tp>>;
  for (const int n : {1, 2, 3}) {
    CAPTURE(n);
    launch<S>({.tp = n}, [&](context& ctx) {
      // Of five tokens: the third, of two equal ones the first, the last, and one that doesn't count.
      const std::vector<float> numbers{0, 1, 3, 2, 0, /**/ 5, 1, 1, 1, 5, /**/ -3, -4, -3, -2, -1, /**/ 9, 0, 0, 0, 0};
      const auto x = from_global<logits>(ctx, {1, 4, 5}, numbers);
      const auto largest = local_share_on_host(predicted_tokens(x));
      CHECK(std::vector<int>(largest.begin(), largest.end()) == std::vector{2, 0, 4, 0});
      const auto right = [&](std::vector<std::int32_t> targets) {
        const auto t = from_global<token_ids<S>>(ctx, {1, 4}, targets);
        const auto [sum, count] = token_accuracy{}(x, t);
        return std::pair(item(all_reduce<dp>(sum)), item(all_reduce<dp>(count)));
      };
      CHECK(right({2, 0, 4, -1}) == std::pair(3.0f, 3.0f));
      CHECK(right({2, 4, 3, 0}) == std::pair(2.0f, 4.0f));
    });
  }
}

TEST_CASE("two metrics of one name are refused") {
  struct measured {
    using logits = tensor<float, dims<batch, seq, vocab>, shard<batch, dp>, shard<vocab, tp>>;
    using targets = token_ids<strategy<mesh<dp, tp>>>;
    using loss_place = queued_loss<cpu_backend>;
  };
  launch<strategy<mesh<dp, tp>>>({.dp = 2}, [](context& ctx) {
    const metric_list twice{token_accuracy{}, token_accuracy{}};
    CHECK(weft_test::said_by([&] {
            detail::metric_sums<metric_list<token_accuracy, token_accuracy>, measured>(ctx, twice);
          }) == "two metrics are called \"accuracy\", and logs tell them by their names: give each another one");
  });
}

TEST_CASE("metrics are in the run's files, beside the held-out loss") {
  const told one = run<with<replicated>>({});
  const std::size_t at = one.log.find("\"validation_loss\"");
  REQUIRE(at != std::string::npos);
  CHECK(one.log.find("\"metrics\":{\"accuracy\":", at) != std::string::npos);
  CHECK(one.result_file.find("\"tokens a row\"") != std::string::npos);
  REQUIRE(one.result.metrics.size() == 4);
  CHECK(one.result.metrics[0].value == one.seen[1][0].value);
}

TEST_CASE("a metric that counts nothing is no number, and the rest goes on") {
  using S = with<zero3>;
  const weft_test::temporary_folder folder;
  launch<S>({.dp = 2, .pp = 2}, [&](context& ctx) {
    llama<S> model(ctx, small);
    const auto none = [](const auto&, const auto& targets) {
      const auto counts = cast<float>(targets >= 99.0);
      return loss{sum(counts), sum(counts)};
    };
    trainer t(ctx, model, adamw{}, token_cross_entropy{}, metric_list{named_metric{"none", none}});
    const training_result r = t.run(counted{&ctx}, {.steps = 1, .batch = 4, .print = false, .folder = folder.path()});
    CHECK(std::isnan(r.metrics.at(0).value));
    CHECK(r.validation_loss > 0);
  });
  CHECK(read_file(folder / "metrics.jsonl").find("\"metrics\":{\"none\":null}") != std::string::npos);
}
