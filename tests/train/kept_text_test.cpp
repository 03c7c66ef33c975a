// A text that grows by turns: each answer is the one that its whole prompt has, read anew, on every mesh alike.
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/train/generate_text.hpp>
#include <weft/weft.hpp>

#include "../said_by.hpp"
#include "backend/late_backend.hpp"

namespace {
using namespace weft;

struct bytes {
  std::vector<std::int32_t> encode(const std::string& text) const {
    std::vector<std::int32_t> out;
    for (const char c : text) out.push_back(static_cast<unsigned char>(c) % 64);
    return out;
  }
  std::string decode(const std::vector<std::int32_t>& tokens) const {
    std::string out;
    for (const std::int32_t t : tokens) out += static_cast<char>(64 + t);
    return out;
  }
};
const llama_config small{
    .layers = 2, .hidden = 24, .heads = 4, .kv_heads = 2, .vocab = 64, .max_seq = 48, .init_stddev = 0.3};
const gpt2_config learned{.layers = 2, .hidden = 24, .heads = 4, .vocab = 64, .max_seq = 48, .init_stddev = 0.3};

template <class... Policies>
using on = strategy<mesh<dp, tp, pp>, fp64, Policies...>;

// f(model, store, ctx) on every rank.
template <template <class> class Model, class S, class Config, class F>
void with(const degrees& ranks, const Config& config, F&& f, const launch_options& options = {}) {
  launch<S>(
      ranks,
      [&](context& ctx) {
        Model<S> model(ctx, config);
        parameter_store<typename S::backend, fp64> store(ctx, model.registry(), config_of<typename S::sharding>());
        model.use(store);
        f(model, store, ctx);
      },
      options);
}
bool same(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// An answer with what is kept; it has to be the one without, and what is kept then what was read.
template <class Model>
std::string answer(Model& model, const std::string& prompt, kept_text& kept, sampling s = {.tokens = 9}) {
  s.temperature = 1;
  const std::string anew = generate_text(model, bytes{}, prompt, s);
  std::string told;
  const std::string text = generate_text(
      model, bytes{}, prompt, s, [&](std::string_view piece) { told += piece; }, &kept);
  CHECK(text == anew);
  if (model.ctx().is_first()) CHECK(told == text);
  return text;
}
template <class Model>
void talk(Model& model) {
  kept_text kept;
  const auto read = [&](const std::string& text) { return same(kept.tokens(), bytes{}.encode(text)); };
  const std::string first = "Who is there?", told = answer(model, first, kept);
  REQUIRE(told.size() == 9);
  CHECK(read(first + told.substr(0, 8)));  // what was written last wasn't read
  std::string all = first + told + "/And who else?";
  const std::string second = answer(model, all, kept);
  CHECK(read(all + second.substr(0, 8)));
  CHECK(answer(model, all, kept) == second);             // the same again
  answer(model, first + told.substr(0, 4) + "?", kept);  // cut back
  answer(model, first.substr(0, 3), kept);               // a beginning of what is kept
  answer(model, "other", kept);                          // cut to nothing
  answer(model, all + second + ", and then?", kept);     // beyond max_seq
  answer(model, all + second + ", and then, I say?", kept);
  CHECK(kept.tokens().size() == 48);
  answer(model, first, kept, {.tokens = 1});
  CHECK(read(first));
  sampling ends{.tokens = std::numeric_limits<std::int64_t>::max(), .end_token = bytes{}.encode(told)[5]};
  const std::string ended = answer(model, first, kept, ends);
  CHECK(read(first + ended));  // the end token is chosen, and isn't read
}
}  // namespace

TEST_CASE("answers are those of the whole prompt, whatever is kept") {
  with<llama, on<>>({}, small, [](auto& model, auto&, context&) { talk(model); });
  with<llama, on<>>({.tp = 2}, small, [](auto& model, auto&, context&) { talk(model); });
  with<llama, on<zero3, sequence_parallel>>({.dp = 2, .tp = 2}, small,
                                            [](auto& model, auto&, context&) { talk(model); });
  with<llama, on<checkpoint_full>>({.dp = 2, .pp = 2}, small, [](auto& model, auto&, context&) { talk(model); });
  with<llama, on<weft_test::late_backend>>({.tp = 2}, small, [](auto& model, auto&, context&) { talk(model); });
  with<gpt2, on<>>({.tp = 2}, learned, [](auto& model, auto&, context&) { talk(model); });
}

TEST_CASE("new weights and another model are noticed; a pass that failed leaves nothing behind") {
  const auto check = [](auto& model, auto& store, context& ctx) {
    kept_text kept;
    const std::string before = answer(model, "a text", kept);
    const auto all = [&](double x) {
      store.load_parameters([&](const parameter_record& p) {
        std::vector<double> numbers(static_cast<std::size_t>(p.global.elements()));
        for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = x * static_cast<double>(i % 7) - x;
        return numbers;
      });
    };
    all(0.1);
    const std::string after = answer(model, "a text", kept);
    CHECK(after != before);
    all(std::numeric_limits<double>::infinity());
    CHECK(weft_test::said_by([&] {
            generate_text(model, bytes{}, "a text", {}, nullptr, &kept);
          }).find("is not finite") != std::string::npos);
    CHECK(kept.tokens().empty());
    all(0.1);
    CHECK(answer(model, "a text", kept) == after);
    using S = on<zero3>;
    llama_config deep = small;
    deep.layers = 3;
    llama<S> other(ctx, deep);
    parameter_store<cpu_backend, fp64> of_other(ctx, other.registry(), config_of<zero3>());
    other.use(of_other);
    answer(other, "a text", kept);
    CHECK(answer(model, "a text", kept) == after);
  };
  with<llama, on<zero3>>({.tp = 2}, small, check);
  with<llama, on<zero3>>({.dp = 2, .tp = 2}, small, check);
}

TEST_CASE("of a model that reads whole texts nothing is kept") {
  llama_config grows = small;
  grows.rope_scaling = {.kind = rope_kind::dynamic, .factor = 4, .original_max_seq = 16};
  with<llama, on<>>({.dp = 2}, grows, [](auto& model, auto&, context&) {
    kept_text kept;
    std::string all = "Who is there?";
    for (int turn = 0; turn < 3; ++turn) all += answer(model, all, kept) + "?";
    CHECK(kept.tokens().empty());
  });
}

TEST_CASE("ranks that have kept other tokens are told so") {
  CHECK(weft_test::said_by([&] {
          with<llama, on<>>({.tp = 2}, small,
                            [](auto& model, auto&, context& ctx) {
                              kept_text kept, other;
                              generate_text(model, bytes{}, "a", {.tokens = 3}, nullptr, &kept);
                              generate_text(model, bytes{}, "ab", {.tokens = 3}, nullptr,
                                            ctx.is_first() ? &kept : &other);
                            },
                            {.check = true});
        }).find("a hash of what is kept of a text") != std::string::npos);
}
