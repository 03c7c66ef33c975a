// Documents in one sequence: a model reads and learns of a packed row what it does of its documents one by one,
// whatever the ranks, the stages and what is recomputed; and what says where documents begin.
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

#include "backend/late_backend.hpp"

namespace {
using namespace weft;

constexpr std::int64_t words = 24, end_word = 5, rows = 4, length = 16;
// Of each row; those of one token, of a whole row and at a row's end among them.
const std::vector<std::vector<std::int64_t>> lengths{{1, 5, 10}, {16}, {7, 1, 1, 7}, {3, 12, 1}};

// Sequences of one length, and what is to be learnt of each token.
struct text {
  std::int64_t sequences, length;
  std::vector<std::int32_t> tokens, targets;
};
// Token t of row r: the last of each document ends it, but for those at the rows' ends, which some row has.
std::int32_t word(std::int64_t r, std::int64_t t) {
  std::int64_t last = -1;
  for (const std::int64_t n : lengths[std::size_t(r)])
    if ((last += n) == t && (t + 1 < length || r == 2)) return end_word;
  const std::int64_t w = (r * 7 + t * t * 3 + t * 11 + 1) % words;
  return static_cast<std::int32_t>(w == end_word ? 0 : w);
}
text part(std::int64_t first_row, std::int64_t n, std::int64_t begin, std::int64_t size) {
  text out{n, size, {}, {}};
  for (std::int64_t r = first_row; r < first_row + n; ++r)
    for (std::int64_t t = begin; t < begin + size; ++t)
      out.tokens.push_back(word(r, t)), out.targets.push_back(static_cast<std::int32_t>((r * 5 + t * 3) % words));
  return out;
}
std::vector<text> packed(int micro_batches) {
  std::vector<text> out;
  for (int i = 0; i < micro_batches; ++i)
    out.push_back(part(i * rows / micro_batches, rows / micro_batches, 0, length));
  return out;
}
std::vector<text> one_by_one() {
  std::vector<text> out;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t begin = 0;
    for (const std::int64_t n : lengths[std::size_t(r)]) out.push_back(part(r, 1, begin, n)), begin += n;
  }
  return out;
}

struct numbers {
  double loss = 0;
  std::vector<double> logits;                            // by row, token and word
  std::map<std::string, std::vector<double>> gradients;  // by global index
};
template <template <class> class Model, class S, class Config>
numbers read(const degrees& ranks, const Config& config, const std::vector<text>& texts) {
  numbers out;
  std::mutex lock;
  launch<S>(ranks, [&](context& ctx) {
    using ids = typename Model<S>::ids;
    Model<S> model(ctx, config);
    parameter_store<typename S::backend, fp64> store(ctx, model.registry(), config_of<typename S::sharding>());
    model.use(store);
    const auto made = [&](const text& x, const std::vector<std::int32_t>& of) {
      return generate<ids>(ctx, {x.sequences, x.length},
                           [&](std::int64_t i) { return std::int64_t{of[std::size_t(i)]}; });
    };
    std::int64_t before = 0;
    for (const text& x : texts) {
      const no_grad off(ctx);
      const auto own = local_share_on_host(all_gather<tp>(model(made(x, x.tokens))));
      const dimension_run run = run_of<layout_of<ids>, batch>(ctx, x.sequences);
      const std::lock_guard guard(lock);
      out.logits.resize(std::size_t(rows * length * words));
      for (std::int64_t i = 0; i < run.valid * x.length * words; ++i)
        out.logits[std::size_t((before + run.first * x.length) * words + i)] = own[std::size_t(i)];
      before += x.sequences * x.length;
    }
    pipeline<Model<S>> stages(ctx, model);
    const int micro_batches = static_cast<int>(texts.size());
    store.begin_step(micro_batches);
    const auto batch = [&](int micro) {
      struct {
        ids tokens, targets;
      } now{made(texts[std::size_t(micro)], texts[std::size_t(micro)].tokens),
            made(texts[std::size_t(micro)], texts[std::size_t(micro)].targets)};
      return now;
    };
    const loss_sums own = stages.train(micro_batches, 1, batch, [&](int) { store.end_micro_batch(); });
    const double loss = finished<typename pipeline<Model<S>>::loss_tensor>(ctx, own).sum;
    store.finish_gradients();
    store.each_parameter([&](const parameter_record& p, auto gradient, auto) {
      const std::lock_guard guard(lock);
      auto& all = out.gradients[p.name];
      all.resize(std::size_t(p.global.elements()), NAN);
      for (std::int64_t i = 0; i < p.local.elements(); ++i)
        if (const std::int64_t at = p.at.global_index(i); at >= 0) all[std::size_t(at)] = double(gradient[i]);
    });
    const std::lock_guard guard(lock);
    if (ctx.is_first()) out.loss = loss;
  });
  return out;
}

// Sums in another order: 1e-16 each, some thousand of them, of numbers as large as the largest gradient.
double off(const numbers& a, const numbers& b) {
  double most = std::abs(a.loss - b.loss) / std::abs(a.loss), largest = 0, worst = 0;
  REQUIRE(a.logits.size() == b.logits.size());
  for (std::size_t i = 0; i < a.logits.size(); ++i) most = std::max(most, std::abs(a.logits[i] - b.logits[i]));
  REQUIRE(a.gradients.size() == b.gradients.size());
  for (const auto& [name, want] : a.gradients) {
    const auto& got = b.gradients.at(name);
    REQUIRE(want.size() == got.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      largest = std::max(largest, std::abs(want[i]));
      const double by = std::abs(want[i] - got[i]);
      if (!(by <= worst)) worst = by;  // a NaN stays
    }
  }
  CHECK(largest > 0.1);
  return std::max(most, worst / largest);
}

template <class... Policies>
using on = strategy<mesh<dp, tp, pp>, fp64, Policies...>;

// A configuration whose documents are told by their end, on every mesh, against the documents one by one on one rank.
template <template <class> class Model, class Config>
void check(Config config) {
  const numbers want = read<Model, on<>>({}, config, one_by_one());
  CHECK(off(want, read<Model, on<>>({}, config, packed(1))) > 1e-3);  // attention sees across the borders
  config.document_end = end_word;
  // What ends a document has to say nothing where documents come one by one.
  CHECK(off(want, read<Model, on<>>({}, config, one_by_one())) == 0);
  const auto same = [&](const numbers& got) { CHECK(off(want, got) < 1e-12); };
  same(read<Model, on<>>({}, config, packed(1)));
  same(read<Model, on<checkpoint_selective>>({.tp = 2}, config, packed(1)));
  same(read<Model, on<zero3, checkpoint_full>>({.dp = 2, .tp = 2}, config, packed(2)));
  same(read<Model, on<zero3, sequence_parallel>>({.tp = 2, .pp = 2}, config, packed(2)));
  same(read<Model, on<zero3, sequence_parallel, checkpoint_full>>({.dp = 2, .tp = 2, .pp = 2}, config, packed(2)));
  same(read<Model, on<interleaved<2>>>({.pp = 2}, config, packed(2)));
  same(read<Model, on<zb_h1, zero2>>({.dp = 3, .pp = 2}, config, packed(1)));  // rows that ranks don't divide
  same(read<Model, on<weft_test::late_backend>>({.tp = 2}, config, packed(1)));
}

const llama_config small_llama{.layers = 4,
                               .hidden = 24,
                               .heads = 6,
                               .kv_heads = 2,
                               .ffn = 40,
                               .vocab = words,
                               .max_seq = length,
                               .init_stddev = 0.3};
const gpt2_config small_gpt2{
    .layers = 4, .hidden = 24, .heads = 6, .vocab = words, .max_seq = length, .dropout = 0, .init_stddev = 0.3};
}  // namespace

TEST_CASE("a Llama reads packed documents as it does one by one") { check<llama>(small_llama); }
TEST_CASE("with a window, and positions that stretch, too") {
  llama_config other = small_llama;
  other.window = 3, other.qk_norm = other.tied_embeddings = true;
  other.rope_scaling = {.kind = rope_kind::yarn, .factor = 4, .original_max_seq = 8};
  check<llama>(other);
}
TEST_CASE("a GPT-2, whose positions begin anew, reads packed documents as it does one by one") {
  check<gpt2>(small_gpt2);
}

TEST_CASE("one document in each row gives the bits of attention that knows of none") {
  llama_config config = small_llama;
  const auto whole = [](const llama_config& c) { return read<llama, on<>>({}, c, {part(1, 1, 0, length)}); };
  const numbers want = whole(config);
  config.document_end = end_word;
  const numbers got = whole(config);
  CHECK(got.logits == want.logits);
  CHECK(got.gradients == want.gradients);
}

TEST_CASE("documents begin behind the token that ends one, and positions count from there") {
  using S = strategy<mesh<dp>, weft_test::late_backend>;
  launch<S>({.dp = 2}, [](context& ctx) {
    using ids = token_ids<S>;
    const std::vector<std::int64_t> given{5, 1, 5, 5, 2, 3, 1, 2, 3, 4, 1, 5, 5, 5, 5, 5, 5, 5};
    const auto tokens = generate<ids>(ctx, {3, 6}, [&](std::int64_t i) { return given[std::size_t(i)]; });
    const ids starts = document_starts(tokens, 5);
    const auto first = local_share_on_host(starts), at = local_share_on_host(document_positions(starts));
    const bool other = ctx.index<dp>().here() == 1;
    const std::vector<std::int32_t> begin[] = {{0, 1, 1, 3, 4, 4, 0, 0, 0, 0, 0, 0}, {0, 1, 2, 3, 4, 5}},
                                    count[] = {{0, 0, 1, 0, 0, 1, 0, 1, 2, 3, 4, 5}, {0, 0, 0, 0, 0, 0}};
    for (std::size_t i = 0; i < begin[other].size(); ++i) {  // the second rank's second row is padding
      CHECK(first[i] == begin[other][i]);
      CHECK(at[i] == count[other][i]);
    }
    CHECK_THROWS_WITH_AS(document_starts(tokens, -1), doctest::Contains("the token that ends a document is -1"),
                         failure);
  });
}

TEST_CASE("what can't be is refused") {
  using S = strategy<mesh<>, fp64>;
  launch<S>({}, [](context& ctx) {
    using x4 = tensor<double, dims<batch, seq, heads, head_dim>, shard<batch, dp>>;
    const auto q = ones<x4>(ctx, {2, 4, 1, 2});
    const auto starts = zeros<token_ids<S>>(ctx, {2, 4});
    CHECK(local_share_on_host(attention(q, q, q, starts)) == std::vector<double>(16, 1.0));
    CHECK_THROWS_WITH_AS(attention(q, q, q, starts, {.causal = false}), doctest::Contains("4 keys, causal: no"),
                         failure);
    const auto keys = ones<x4>(ctx, {2, 6, 1, 2});
    CHECK_THROWS_WITH_AS((attention(q, keys, keys, starts)), doctest::Contains("4 queries for 6 keys"), failure);
    const auto other = zeros<token_ids<S>>(ctx, {1, 4});
    CHECK_THROWS_WITH_AS((attention(q, q, q, other)),
                         doctest::Contains("the starts of documents are of 1 sequences of 4 tokens, and the queries of "
                                           "2 of 4: document_starts(tokens, end)"),
                         failure);
    kv_cache cache(ctx, 2, 8);
    cache.begin_pass(std::vector<std::int64_t>{4, 4});
    CHECK_THROWS_WITH_AS((attention(q, q, q, starts, {.cache = &cache})),
                         doctest::Contains("with a kv_cache each sequence is one document"), failure);
    llama_config config = small_llama;
    for (const std::int64_t end : {std::int64_t{-2}, words}) {
      config.document_end = end;
      CHECK_THROWS_WITH_AS(llama<S>(ctx, config), doctest::Contains("it is one of the vocabulary's 24 tokens"),
                           failure);
    }
  });
}

TEST_CASE("starts that aren't any read no memory but their row's") {
  using S = strategy<mesh<>, fp64>;
  launch<S>({}, [](context& ctx) {
    using x4 = tensor<double, dims<batch, seq, heads, head_dim>, shard<batch, dp>>;
    const auto q = ones<x4>(ctx, {1, 4, 1, 2});
    for (const std::int64_t wild : {std::int64_t{-7}, std::int64_t{99}, std::int64_t{1} << 31}) {
      const auto starts = generate<token_ids<S>>(ctx, {1, 4}, [&](std::int64_t) {
        return std::min<std::int64_t>(wild, std::numeric_limits<std::int32_t>::max());
      });
      CHECK(local_share_on_host(attention(q, q, q, starts)) == std::vector<double>(8, 1.0));  // its own key, at least
    }
  });
}

TEST_CASE("a text that is generated is one document, longer than max_seq too") {
  using S = strategy<mesh<>, fp64>;
  std::vector<std::int32_t> texts[2];
  for (const std::int64_t end : {std::int64_t{-1}, end_word})
    launch<S>({}, [&](context& ctx) {
      llama_config config = small_llama;
      config.document_end = end;
      llama<S> model(ctx, config);
      parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<replicated>());
      model.use(store);
      const std::vector<std::int32_t> prompt{1, 2, static_cast<std::int32_t>(end_word), 3};
      std::vector<std::int32_t>& out = texts[end >= 0];
      const no_grad off(ctx);
      detail::token_reader reader(model, 4);
      std::vector<std::int32_t> all = prompt;
      for (int i = 0; i < 2 * length; ++i) {
        const auto logits = reader.next_logits(all, [](const auto& last) { return local_share_on_host(last); });
        all.push_back(static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
        if (i % 5 == 0) all.push_back(static_cast<std::int32_t>(end_word));
      }
      out = all;
    });
  CHECK(texts[0] == texts[1]);
}

TEST_CASE("a text that is read token by token is one document") {
  using S = strategy<mesh<>, fp64>;
  std::vector<double> logits[2];
  for (const std::int64_t end : {std::int64_t{-1}, end_word})
    launch<S>({}, [&](context& ctx) {
      llama_config config = small_llama;
      config.document_end = end;
      llama<S> model(ctx, config);
      parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<replicated>());
      model.use(store);
      kv_cache cache(ctx, 1, length);
      const auto tokens =
          generate<token_ids<S>>(ctx, {1, length}, [](std::int64_t t) { return std::int64_t{word(2, t)}; });
      logits[end >= 0] = local_share_on_host(model.decode(tokens, cache));
    });
  CHECK(logits[0] == logits[1]);
}
