// Many texts at once: each is the one that its prompt has alone, whatever is written beside it, on whatever ranks.
#include <atomic>
#include <limits>
#include <mutex>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

#include "../said_by.hpp"
#include "sample.hpp"

namespace {
using namespace weft;
using tokens_of = std::vector<std::vector<std::int32_t>>;

const llama_config small{
    .layers = 2, .hidden = 48, .heads = 6, .kv_heads = 3, .ffn = 96, .vocab = 256, .max_seq = 24, .init_stddev = 0.3};

// f(model) on every rank; what the last one gives.
template <template <class> class Model, class S, class Config, class F>
auto with(const degrees& ranks, const Config& config, F&& f) {
  decltype(f(std::declval<Model<S>&>())) out;
  launch<S>(ranks, [&](context& ctx) {
    Model<S> model(ctx, config);
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<typename S::sharding>());
    model.use(store);
    auto mine = f(model);
    if (ctx.rank().here() == ctx.size().here() - 1) out = std::move(mine);
  });
  return out;
}
template <class... Policies>
using on = strategy<mesh<dp, tp, pp>, fp64, Policies...>;

const std::vector<std::string> prompts{"a", "a prompt of twenty-one", "", "bc", "defg", "hij", "a", "k"};
}  // namespace

TEST_CASE("texts of a batch are those of their prompts alone") {
  const sampling likeliest{.tokens = 17, .temperature = 0};
  std::vector<std::string> alone;
  for (const std::string& p : prompts)
    alone.push_back(with<llama, on<>>({}, small, [&](auto& model) { return generate(model, p, likeliest); }));
  const auto together = [&](std::int64_t at_once, std::int64_t prefill) {
    return [&, at_once, prefill](auto& model) {
      return generate(model, prompts, likeliest, {.at_once = at_once, .prefill = prefill});
    };
  };
  CHECK(with<llama, on<>>({}, small, together(3, 4)) == alone);  // beyond max_seq for the second
  CHECK(with<llama, on<>>({.tp = 3}, small, together(8, 256)) == alone);
  CHECK(with<llama, on<zero3, sequence_parallel>>({.dp = 2, .tp = 3}, small, together(2, 5)) == alone);
  CHECK(with<llama, on<>>({.dp = 3, .pp = 2}, small, together(1, 256)) == alone);
}

TEST_CASE("a text's draws are its own: of its number and the seed") {
  const sampling s{.tokens = 12, .temperature = 1, .min_p = 0.01};
  const auto run = [&](std::int64_t at_once) {
    return [&, at_once](auto& model) { return generate(model, prompts, s, {.at_once = at_once}); };
  };
  const auto one = with<llama, on<>>({}, small, run(1));
  CHECK(with<llama, on<>>({}, small, run(8)) == one);
  CHECK(with<llama, on<zero3>>({.dp = 2}, small, run(2)) == one);
  CHECK(one[0] == with<llama, on<>>({}, small, [&](auto& model) { return generate(model, prompts[0], s); }));
  CHECK(one[0] != one[6]);  // the same prompt, by other draws
}

TEST_CASE("a GPT-2, and a model that reads the whole text anew") {
  const tokens_of given{{5, 6, 7}, {1}, {9, 9, 9, 9, 9}};
  const sampling likeliest{.tokens = 9, .temperature = 0};
  const auto write = [&](std::int64_t at_once) {
    return [&, at_once](auto& model) { return generate_tokens(model, given, likeliest, {.at_once = at_once}); };
  };
  const gpt2_config other{.layers = 2, .hidden = 24, .heads = 6, .vocab = 40, .max_seq = 16, .init_stddev = 0.3};
  const auto one = with<gpt2, on<>>({}, other, write(1));
  CHECK(one[2].size() == 9);
  CHECK(with<gpt2, on<>>({.dp = 2, .tp = 2}, other, write(2)) == one);
  llama_config grows = small;
  grows.rope_scaling = {.kind = rope_kind::dynamic, .factor = 4, .original_max_seq = 8};
  const auto anew = with<llama, on<>>({}, grows, write(1));
  CHECK(with<llama, on<>>({.dp = 2}, grows, write(2)) == anew);
}

TEST_CASE("a text ends where it is told to, and tokens are told as they come") {
  const sampling likeliest{.tokens = 8, .temperature = 0};
  const tokens_of given{{65}, {66, 67}};
  const auto whole =
      with<llama, on<>>({}, small, [&](auto& model) { return generate_tokens(model, given, likeliest); });
  REQUIRE(whole[1].size() == 8);
  sampling ends = likeliest;
  ends.end_token = whole[1][5];
  const auto at = std::find(whole[1].begin(), whole[1].end(), ends.end_token) - whole[1].begin();
  std::vector<std::pair<std::size_t, std::int32_t>> told;
  const auto ended = with<llama, on<>>({.tp = 3}, small, [&](auto& model) {
    return generate_tokens(model, given, ends,
                           {.at_once = 1, .on_token = [&](std::size_t p, std::int32_t t) { told.emplace_back(p, t); }});
  });
  CHECK(std::ssize(ended[1]) == at);
  CHECK(std::equal(ended[1].begin(), ended[1].end(), whole[1].begin()));
  std::vector<std::pair<std::size_t, std::int32_t>> expected;
  for (std::size_t p = 0; p < 2; ++p)
    for (const std::int32_t t : ended[p]) expected.emplace_back(p, t);
  CHECK(told == expected);

  std::atomic<bool> stop{false};
  sampling stopped = likeliest;
  stopped.stop = &stop;
  const auto some = with<llama, on<>>({}, small, [&](auto& model) {
    return generate_tokens(model, given, stopped,
                           {.on_token = [&, n = 0](std::size_t, std::int32_t) mutable { stop = ++n == 4; }});
  });
  CHECK(some[0].size() == 2);  // the first rank sees it while the third token is chosen
  CHECK(some[1].size() == 2);
  CHECK(with<llama, on<>>({}, small, [&](auto& model) { return generate_tokens(model, tokens_of{}); }).empty());
  sampling until = ends;  // by the end token alone
  until.tokens = std::numeric_limits<std::int64_t>::max();
  const auto to_the_end =
      with<llama, on<>>({}, small, [&](auto& model) { return generate_tokens(model, {given[1]}, until); });
  CHECK(to_the_end[0] == ended[1]);
  const auto braces = with<llama, on<>>({}, small, [&](auto& model) {
    const std::string one = generate(model, {}, {.tokens = 1, .temperature = 0});
    const std::vector<std::string> two = generate(model, {"A", "BC"}, {.tokens = 1, .temperature = 0});
    return std::pair(one.size(), two.size());
  });
  CHECK(braces == std::pair<std::size_t, std::size_t>(1, 2));
  CHECK(with<llama, on<>>({}, small, [&](auto& model) { return generate_tokens(model, given, {.tokens = 0}); }) ==
        tokens_of{{}, {}});
}

TEST_CASE("prompts that can't be continued are named, and ranks with other prompts") {
  const auto refuses = [&](const tokens_of& given, const batching& b, const char* sentence) {
    with<llama, on<>>({}, small, [&](auto& model) {
      CHECK_THROWS_WITH_AS(generate_tokens(model, given, {}, b), doctest::Contains(sentence), failure);
      return 0;
    });
  };
  refuses({{1}, {}}, {}, "prompt 1 of 2 is empty: a text begins with at least one token");
  refuses({{1, 256}}, {}, "prompt 0 has the token 256, and the model's 256 count from 0");
  refuses({{-1}}, {}, "prompt 0 has the token -1");
  refuses({{1}}, {.at_once = 0}, "batching writes 0 texts at once");
  refuses({{1}}, {.prefill = 0}, "read 0 tokens at a time");
  const auto differ = [] {
    launch<on<>>({.dp = 2},
                 [&](context& ctx) {
                   llama<on<>> model(ctx, small);
                   parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<replicated>());
                   model.use(store);
                   generate_tokens(model, {{ctx.rank().here()}}, {.tokens = 1});
                 },
                 {.check = true});
  };
  CHECK_THROWS_WITH_AS(differ(), doctest::Contains("generate"), failure);
}

TEST_CASE("where one rank's text overflows, every rank says so") {
  const std::string sentence = "a token is chosen by logits whose largest is ";  // a NaN of either sign
  const auto check = [&]<class S>(const degrees& ranks) {
    int said = 0;  // by ranks
    std::mutex one;
    launch<S>(ranks, [&](context& ctx) {
      llama<S> model(ctx, small);
      parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<typename S::sharding>());
      model.use(store);
      store.load_parameters([&](const parameter_record& p) {  // of the token b alone
        std::vector<double> numbers(static_cast<std::size_t>(p.global.elements()), 0.1);
        if (p.name == "embedding")
          std::fill_n(numbers.begin() + 'b' * p.global[1], p.global[1], std::numeric_limits<double>::infinity());
        return numbers;
      });
      const auto count = [&](auto&& write) {
        const bool right = weft_test::said_by(write).starts_with(sentence);
        const std::lock_guard<std::mutex> alone(one);
        said += right;
      };
      const sampling s{.tokens = 3, .temperature = 0};
      count([&] { generate(model, {"a", "b", "a"}, s, {.at_once = 1}); });
      count([&] { generate(model, {"b"}, s); });
      CHECK(generate(model, {"a"}, s).front().size() == 3);  // ranks go on together
      count([&] { generate(model, "b", s); });
      CHECK(generate(model, "a", s).size() == 3);
    });
    CHECK(said == 3 * static_cast<int>(ranks.product()));
  };
  check.operator()<on<>>({});
  check.operator()<on<zero3>>({.dp = 3});
  check.operator()<on<>>({.dp = 2, .tp = 3});
  check.operator()<on<>>({.dp = 2, .pp = 2});
}
