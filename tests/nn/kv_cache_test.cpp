// Texts that are read token by token: a cache gives the logits that the whole text has, whatever the batch's lengths,
// the model and the ranks.
#include <cmath>
#include <mutex>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include <weft/train/generate_text.hpp>
#include <weft/weft.hpp>

#include "backend/late_backend.hpp"

namespace {
using namespace weft;

constexpr std::int64_t words = 24;
const llama_config small{
    .layers = 3, .hidden = 24, .heads = 6, .kv_heads = 2, .ffn = 40, .vocab = words, .max_seq = 16, .init_stddev = 0.3};

std::int32_t word(std::int64_t sequence, std::int64_t position) {
  return static_cast<std::int32_t>((sequence * 7 + position * position * 3 + position) % words);
}
// Sequence i's tokens [begin, begin + given(i)), in rows as long as the longest.
template <class Ids, class Begin, class Given>
Ids rows(context& ctx, std::int64_t sequences, std::int64_t width, Begin begin, Given given) {
  return generate<Ids>(ctx, {sequences, width}, [&](std::int64_t at) {
    const std::int64_t i = at / width, t = at % width;
    return t < given(i) ? std::int64_t{word(i, begin(i) + t)} : std::int64_t{1};
  });
}

// By sequence and position: logits of a text of `length` tokens, one sequence at a time, on one rank.
template <template <class> class Model, class Projections, class Config>
std::vector<std::vector<double>> whole(const Config& config, std::int64_t sequences, std::int64_t length) {
  using S = strategy<mesh<>, fp64, Projections>;
  std::vector<std::vector<double>> out;
  launch<S>({}, [&](context& ctx) {
    Model<S> model(ctx, config);
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<replicated>());
    model.use(store);
    const no_grad off(ctx);
    for (std::int64_t i = 0; i < sequences; ++i)
      out.push_back(local_share_on_host(model(generate<typename Model<S>::ids>(
          ctx, {1, length}, [&](std::int64_t t) { return std::int64_t{word(i, t)}; }))));
  });
  return out;
}

// Four sequences of other lengths each: prompts of 5, 1, 3 and 0 tokens, then two tokens of each, one of some, and two
// of the first anew.
template <template <class> class Model, class S, class Config>
void check(const degrees& ranks, const Config& config) {
  constexpr std::int64_t sequences = 4;
  const auto all = whole<Model, typename S::projections>(config, sequences, 12);
  std::mutex lock;
  launch<S>(ranks, [&](context& ctx) {
    using ids = typename Model<S>::ids;
    Model<S> model(ctx, config);
    parameter_store<typename S::backend, fp64> store(ctx, model.registry(), config_of<typename S::sharding>());
    model.use(store);
    const dimension_run own = run_of<layout_of<ids>, batch>(ctx, sequences);
    kv_cache cache(ctx, own.local, 7);
    std::vector<std::int64_t> at(sequences);  // tokens that each has been given
    const auto part = [&](const std::vector<std::int64_t>& of_all) {
      return std::vector<std::int64_t>(of_all.begin() + own.first, of_all.begin() + own.first + own.local);
    };
    const auto next = [&](const std::vector<std::int64_t>& given) {
      const auto x = rows<ids>(
          ctx, sequences, *std::max_element(given.begin(), given.end()),
          [&](std::int64_t i) { return at[std::size_t(i)]; }, [&](std::int64_t i) { return given[std::size_t(i)]; });
      for (std::size_t i = 0; i < given.size(); ++i) at[i] += given[i];
      return x;
    };
    const auto compare = [&](const std::vector<std::int64_t>& given, const auto& logits) {
      const auto numbers = local_share_on_host(all_gather<tp>(logits));
      const std::int64_t width = logits.template global_extent<seq>();
      double off = 0;
      for (std::int64_t i = 0; i < own.local; ++i) {
        const auto s = std::size_t(own.first + i);
        for (std::int64_t t = 0; t < given[s]; ++t)
          for (std::int64_t w = 0; w < words; ++w)
            off = std::max(off, std::abs(numbers[std::size_t(((i * width) + t) * words + w)] -
                                         all[s][std::size_t((at[s] - given[s] + t) * words + w)]));
      }
      const std::lock_guard guard(lock);
      CHECK(off < 1e-12);
    };
    const std::vector<std::int64_t> prompts{5, 1, 3, 0}, each{2, 2, 2, 2}, some{1, 0, 1, 4};
    model.prefill(next(prompts), cache, part(prompts));
    compare(each, model.decode(next(each), cache));
    cache.reserve<typename S::backend>(12);  // what is kept stays
    CHECK(cache.capacity() == 12);
    cache.reserve<typename S::backend>(4);
    CHECK(cache.capacity() == 12);
    compare(some, model.decode(next(some), cache, part(some)));
    for (std::int64_t i = 0; i < own.local; ++i) CHECK(cache.length(i) == at[std::size_t(own.first + i)]);
    // The first sequence of every rank begins again, beside others that go on.
    std::vector<std::int64_t> again(sequences, 1);
    for (std::int64_t i = 0; i < sequences; i += own.local) at[std::size_t(i)] = 2, again[std::size_t(i)] = 3;
    cache.truncate(0, 2);
    compare(again, model.decode(next(again), cache, part(again)));
  });
}

template <class... Policies>
using on = strategy<mesh<dp, tp, pp>, fp64, Policies...>;
template <template <class> class Model, class Config>
void check_all(const Config& config) {
  check<Model, on<>>({}, config);
  check<Model, on<>>({.tp = 2}, config);
  check<Model, on<zero3, fused_qkv<>>>({.dp = 2, .tp = 2}, config);
  check<Model, on<sequence_parallel, checkpoint_full>>({.tp = 2, .pp = 2}, config);
}
}  // namespace

TEST_CASE("a Llama reads token by token what it reads at once") { check_all<llama>(small); }
TEST_CASE("on a queue that runs behind its host") {
  check<llama, on<weft_test::late_backend>>({.tp = 2}, small);
  check<gpt2, on<weft_test::late_backend>>(
      {}, gpt2_config{.layers = 2, .hidden = 24, .heads = 6, .vocab = words, .max_seq = 16, .init_stddev = 0.3});
}
TEST_CASE("with a window, norms of queries and keys, biases and stretched positions too") {
  llama_config other = small;
  other.window = 3, other.window_from = 1, other.qk_norm = other.qkv_bias = other.tied_embeddings = true;
  other.rope_scaling = {.kind = rope_kind::yarn, .factor = 4, .original_max_seq = 8};
  check<llama, on<>>({}, other);
  check<llama, on<>>({.tp = 2}, other);
}
TEST_CASE("a GPT-2 reads token by token what it reads at once") {
  check_all<gpt2>(gpt2_config{
      .layers = 3, .hidden = 24, .heads = 6, .vocab = words, .max_seq = 16, .dropout = 0.5, .init_stddev = 0.3});
}

namespace {
// What a text costs: tokens that pass through the model's layers.
template <class S>
struct counting : decoder<S, counting<S>, llama_layer<S>> {
  using base = decoder<S, counting<S>, llama_layer<S>>;
  counting(context& ctx, bool cached) : base(ctx, 1, false), cached_(cached) {
    base::add_embedding(256, 8, 0.5, [] {});
    base::each_layer([&](llama_layer<S>&, const std::string&) {});
    base::add_head(256, 8, 0.5, [] {});
  }
  struct sizes {
    std::int64_t vocab = 256, hidden = 8, max_seq = 12;
  };
  sizes config() const { return {}; }
  struct pass {
    counting* model;
    kv_cache* cache;
    auto embed(const auto& tokens) const { return leave_block<S>(embedding(tokens, model->embedding_)); }
    auto block(const llama_layer<S>&, const auto& x) const {
      model->seen += x.template global_extent<seq>();
      if (cache) cache->next_layer(dtype::f64, 1, 1);
      return x;
    }
    auto head(const auto& table, const auto& x) const {
      model->judged += x.template global_extent<seq>();
      return contract<hidden>(enter_block<S>(x), table);
    }
  };
  pass pass_for(const typename base::ids&, kv_cache* cache = nullptr) { return {this, cache}; }
  bool keys_stay(std::int64_t) const { return cached_; }
  std::int64_t seen = 0, judged = 0;
  bool cached_;
};
}  // namespace

TEST_CASE("a text's tokens are read once each, as long as they fit") {
  using S = strategy<mesh<>, fp64>;
  launch<S>({}, [](context& ctx) {
    for (const bool cached : {true, false}) {
      counting<S> model(ctx, cached);
      parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<replicated>());
      model.use(store);
      const auto cost = [&](std::int64_t tokens) {
        model.seen = model.judged = 0;
        CHECK(std::ssize(generate(model, "prompt", {.tokens = tokens, .temperature = 0})) == tokens);
        return std::pair(model.seen, model.judged);
      };
      if (cached) {
        CHECK(cost(1) == std::pair<std::int64_t, std::int64_t>(6, 1));
        CHECK(cost(7) == std::pair<std::int64_t, std::int64_t>(12, 7));
        CHECK(cost(8) == std::pair<std::int64_t, std::int64_t>(24, 19));  // the eighth reads the last twelve anew
      } else {
        CHECK(cost(2) == std::pair<std::int64_t, std::int64_t>(13, 13));
      }
      CHECK(cost(0).first == 0);
    }
  });
}

TEST_CASE("of a text that grows by turns the new tokens are read alone") {
  using S = strategy<mesh<>, fp64>;
  struct bytes {
    std::vector<std::int32_t> encode(const std::string& s) const {
      std::vector<std::int32_t> out;
      for (const char c : s) out.push_back(static_cast<unsigned char>(c));
      return out;
    }
    std::string decode(const std::vector<std::int32_t>& t) const { return {t.begin(), t.end()}; }
  };
  launch<S>({}, [](context& ctx) {
    counting<S> model(ctx, true);
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<replicated>());
    model.use(store);
    kept_text kept;
    const auto cost = [&](const std::string& prompt) {
      model.seen = 0;
      generate_text(model, bytes{}, prompt, {.tokens = 2, .temperature = 0}, nullptr, &kept);
      return model.seen;
    };
    CHECK(cost("prompt") == 7);  // what is written last isn't read
    CHECK(std::ssize(kept.tokens()) == 7);
    const std::string so_far(kept.tokens().begin(), kept.tokens().end());
    CHECK(so_far.starts_with("prompt"));
    CHECK(cost(so_far + "xy") == 3);
    CHECK(cost(so_far + "xz") == 2);
    CHECK(cost("proud") == 3);
    CHECK(cost("pro") == 2);  // its last token gives the first logits
    CHECK(cost("other") == 6);
    CHECK(cost("a longer text") == 24);  // beyond max_seq: twelve tokens anew for each
    CHECK(cost("a longer one") == 12 + 12);
  });
}

TEST_CASE("positions of the next tokens: behind what each sequence has, and 0 in padding") {
  using S = strategy<mesh<>, fp64>;
  launch<S>({}, [](context& ctx) {
    kv_cache cache(ctx, 2, 9);
    cache.begin_pass(std::vector<std::int64_t>{4, 1});
    cache.end_pass();
    cache.begin_pass(std::vector<std::int64_t>{1, 3});
    const auto tokens = zeros<token_ids<S>>(ctx, {2, 3});
    const no_grad off(ctx);
    const auto at = next_positions(tokens, cache);
    CHECK(local_share_on_host(at) == std::vector<std::int32_t>{4, 0, 0, 1, 2, 3});
  });
}

TEST_CASE("what a cache has no room for, or isn't made for, is said") {
  using S = strategy<mesh<>, fp64>;
  launch<S>({}, [](context& ctx) {
    using ids = llama<S>::ids;
    const auto refuses = [](auto&& f, const char* sentence) {
      CHECK_THROWS_WITH_AS(f(), doctest::Contains(sentence), failure);
    };
    llama<S> model(ctx, small);
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<replicated>());
    model.use(store);
    const auto tokens = zeros<ids>(ctx, {2, 3});
    kv_cache cache(ctx, 2, 5), one(ctx, 1, 99), large(ctx, 2, 99);
    model.prefill(tokens, cache);
    CHECK(cache.length(1) == 3);
    refuses(
        [&] { model.decode(tokens, cache); },
        "sequence 0 has 3 positions in a kv_cache for 5 and is given 3 more: make it for more, or truncate(0, n) it");
    CHECK(cache.length(0) == 3);
    refuses(
        [&] {
          model.decode(tokens, large, std::vector<std::int64_t>{2, 4});
        },
        "4 tokens are added to sequence 1 of a kv_cache, and the tensor has 3");
    refuses([&] { model.decode(tokens, cache, std::vector<std::int64_t>{2}); },
            "a kv_cache of 2 sequences is told what 1 are given");
    refuses([&] { model.decode(tokens, cache, std::vector<std::int64_t>{-1, 0}); }, "sequence 0 is given -1 tokens");
    refuses([&] { model.prefill(tokens, one, std::vector<std::int64_t>{3}); },
            "the kv_cache is of 1 sequences of this rank's, and the tensor has 2");
    gpt2<S> learned(ctx, {.layers = 1, .hidden = 8, .heads = 2, .vocab = words, .max_seq = 16});
    parameter_store<cpu_backend, fp64> of_learned(ctx, learned.registry(), config_of<replicated>());
    learned.use(of_learned);
    kv_cache four(ctx, 4, 5);
    refuses([&] { learned.prefill(tokens, four); },
            "decode: the kv_cache is of 4 sequences of this rank's, and the tensor has 2");
    for (int i = 0; i < 5; ++i) model.prefill(tokens, large);
    refuses([&] { model.prefill(tokens, large); }, "a sequence of 18 tokens is longer than max_seq = 16");
    refuses([&] { cache.truncate(1, 4); }, "a sequence of 3 positions isn't cut to 4");
    refuses([&] { cache.truncate(2, 0); }, "sequence 2 of a kv_cache of 2");
    refuses([&] { const kv_cache none(ctx, 0, 1); }, "at least 1 sequence, not 0");
    refuses([&] { const kv_cache none(ctx, 1, 0); }, "at least 1 position, not 0");

    llama_config wide = small;
    wide.heads = 3, wide.kv_heads = 1, wide.head_dim = 8;
    llama<S> another(ctx, wide);
    parameter_store<cpu_backend, fp64> of_another(ctx, another.registry(), config_of<replicated>());
    another.use(of_another);
    const auto next = zeros<ids>(ctx, {2, 1});
    refuses([&] { another.decode(next, cache); }, "a kv_cache has another model's keys: make one for each model");
    llama_config deep = small, flat = small;
    deep.layers = 4, flat.layers = 2;
    for (const llama_config& c : {deep, flat}) {
      llama<S> third(ctx, c);
      parameter_store<cpu_backend, fp64> of_third(ctx, third.registry(), config_of<replicated>());
      third.use(of_third);
      cache.truncate(0, 0), cache.truncate(1, 0);  // a free one serves another model, if its layers are alike
      refuses([&] { third.decode(next, cache); }, c.layers == 4 ? "more layers with attention than one before, 3"
                                                                : "had 2 layers with attention, and one before 3");
    }
    refuses([&] { another.decode(next, cache); }, "a cache is one model's");
    model.prefill(tokens, cache);
    model.decode(next, cache);
    CHECK(cache.length(0) == 4);
    store.load_parameters([](const parameter_record& p) {
      return std::vector<double>(static_cast<std::size_t>(p.global.elements()), 0.5);
    });
    refuses([&] { model.decode(next, cache); }, "the model's weights have changed since a kv_cache took its keys");
    cache.truncate(0, 0), cache.truncate(1, 0);
    model.decode(next, cache);
    CHECK(cache.length(0) == 1);

    llama_config grows = small;
    grows.rope_scaling = {.kind = rope_kind::dynamic, .factor = 4, .original_max_seq = 4};
    llama<S> growing(ctx, grows);
    parameter_store<cpu_backend, fp64> of_growing(ctx, growing.registry(), config_of<replicated>());
    growing.use(of_growing);
    kv_cache room(ctx, 2, 16);
    growing.prefill(tokens, room);
    growing.decode(next, room);
    refuses([&] { growing.decode(next, room); }, "turns the keys of a text of 5 tokens otherwise");

    using heads_of = tensor<double, dims<batch, seq, heads, head_dim>>;
    const auto x = ones<heads_of>(ctx, {2, 1, 6, 4});
    kv_cache own(ctx, 2, 4);
    const std::vector<std::int64_t> single{1, 1};
    own.begin_pass(single);
    refuses([&] { attention(x, x, x, {.cache = &own}); }, "with a kv_cache nothing is recorded");
    {
      const no_grad off(ctx);
      own.begin_pass(std::vector<std::int64_t>{1, 2});
      refuses([&] { attention(x, x, x, {.cache = &own}); }, "attention: 2 tokens are added to sequence 1");
      refuses([&] { rope(x, make_rope_table<double>(ctx, frequencies_of({}, 4, 10000, 9), 9), &own); },
              "rope: 2 tokens are added to sequence 1");
      own.begin_pass(single);
    }
    const no_grad off(ctx);
    refuses([&] { attention(x, x, x, {.causal = false, .cache = &own}); }, "with a kv_cache it is causal");
    attention(x, x, x, {.cache = &own});
    own.end_pass();
    CHECK(own.length(0) == 1);
  });
}

namespace {
// Takes a cache, and keeps it to itself.
template <class S>
struct forgets : decoder<S, forgets<S>, llama_layer<S>> {
  using base = decoder<S, forgets<S>, llama_layer<S>>;
  explicit forgets(context& ctx) : base(ctx, 1, false) {
    base::add_embedding(256, 8, 0.5, [] {});
    base::each_layer([&](llama_layer<S>&, const std::string&) {});
    base::add_head(256, 8, 0.5, [] {});
  }
  struct sizes {
    std::int64_t vocab = 256, hidden = 8, max_seq = 12;
  };
  sizes config() const { return {}; }
  struct pass {
    forgets* model;
    auto embed(const auto& tokens) const { return leave_block<S>(embedding(tokens, model->embedding_)); }
    auto block(const llama_layer<S>&, const auto& x) const { return x; }
    auto head(const auto& table, const auto& x) const { return contract<hidden>(enter_block<S>(x), table); }
  };
  pass pass_for(const typename base::ids&, kv_cache* = nullptr) { return {this}; }
};
}  // namespace

TEST_CASE("a model that keeps its cache to itself, and keys of weights that another store had") {
  using S = strategy<mesh<>, fp64>;
  launch<S>({}, [](context& ctx) {
    forgets<S> own(ctx);
    parameter_store<cpu_backend, fp64> of_own(ctx, own.registry(), config_of<replicated>());
    own.use(of_own);
    CHECK_THROWS_WITH_AS(generate(own, "abc", {.tokens = 2}),
                         doctest::Contains("no layer of the model gave its kv_cache to attention"), failure);

    llama<S> model(ctx, small);
    kv_cache cache(ctx, 1, 9);
    const auto tokens = zeros<llama<S>::ids>(ctx, {1, 2});
    {
      parameter_store<cpu_backend, fp64> first(ctx, model.registry(), config_of<replicated>());
      model.use(first);
      model.prefill(tokens, cache);
      model.release();
    }
    parameter_store<cpu_backend, fp64> second(ctx, model.registry(), config_of<replicated>());
    model.use(second);
    CHECK_THROWS_WITH_AS(model.decode(tokens, cache), doctest::Contains("weights have changed"), failure);
    std::optional<llama<S>> one(std::in_place, ctx, small);
    kv_cache of_one(ctx, 1, 9);
    for (int i = 0; i < 2; ++i) {  // in one place
      one.emplace(ctx, small);
      parameter_store<cpu_backend, fp64> store(ctx, one->registry(), config_of<replicated>());
      one->use(store);
      if (i == 0)
        one->prefill(tokens, of_one);
      else
        CHECK_THROWS_WITH_AS(one->decode(tokens, of_one), doctest::Contains("another model's keys"), failure);
    }
  });
}

TEST_CASE("a cache that outlives its launch is refused, and ends in peace") {
  using S = strategy<mesh<>, fp64>;
  std::optional<kv_cache> cache;
  launch<S>({}, [&](context& ctx) {
    llama<S> model(ctx, small);
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<replicated>());
    model.use(store);
    cache.emplace(ctx, 1, 8);
    model.prefill(zeros<llama<S>::ids>(ctx, {1, 3}), *cache);
  });
  launch<S>({}, [&](context& ctx) {
    llama<S> model(ctx, small);
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<replicated>());
    model.use(store);
    cache->truncate(0, 0);
    CHECK_THROWS_WITH_AS(model.prefill(zeros<llama<S>::ids>(ctx, {1, 3}), *cache),
                         doctest::Contains("a kv_cache is used after its launch ended"), failure);
  });
  cache.reset();
}
