// Generated text: what the model says of the text itself, whatever the ranks, whatever its length.
#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include <weft/weft.hpp>

#include "sample.hpp"

namespace {
using namespace weft;

llama_config config_of_kind(rope_kind kind) {
  return {.layers = 2,
          .hidden = 48,
          .heads = 6,
          .kv_heads = 3,
          .ffn = 96,
          .vocab = 256,
          .max_seq = 64,
          .rope_scaling = {.kind = kind, .factor = 4, .original_max_seq = 16},
          .init_stddev = 0.3};
}

// The likeliest next byte of a text, of which the model sees just that.
template <class S>
char likeliest_after(llama<S>& model, const std::string& text) {
  using ids = typename llama<S>::ids;
  const auto n = std::min<std::int64_t>(model.config().max_seq, std::int64_t(text.size()));
  const auto x = generate<ids>(model.ctx(), {1, n}, [&](std::int64_t i) {
    return std::int64_t(static_cast<unsigned char>(text[text.size() - std::size_t(n) + std::size_t(i)]));
  });
  const auto last = slice<seq>(model(x), n - 1, 1).local_share();  // one rank has all
  return char(std::max_element(last.begin(), last.end()) - last.begin());
}
template <class S>
std::string expected(const llama_config& config, const std::string& prompt, int tokens) {
  std::string text = prompt;
  launch<S>({}, [&](context& ctx) {
    llama<S> model(ctx, config);
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<replicated>());
    model.use(store);
    const recording off(ctx, nullptr);
    for (int i = 0; i < tokens; ++i) text += likeliest_after(model, text);
  });
  return text.substr(prompt.size());
}
template <class S>
std::string generated(const degrees& ranks, const llama_config& config, const std::string& prompt, int tokens) {
  std::string text;
  launch<S>(ranks, [&](context& ctx) {
    llama<S> model(ctx, config);
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<typename S::sharding>());
    model.use(store);
    const std::string said = generate(model, prompt, {.tokens = tokens, .temperature = 0});
    if (ctx.is_first()) text = said;
  });
  return text;
}
}  // namespace

TEST_CASE("generated text is that of the text's own length: no padding chooses frequencies") {
  using one = strategy<mesh<>, fp64>;
  using many = strategy<mesh<dp, tp, pp>, fp64>;
  using along = strategy<mesh<dp, tp>, fp64, zero3, sequence_parallel>;
  for (const rope_kind kind : weft_test::sampled_cases({rope_kind::yarn, rope_kind::dynamic}))
    for (const std::string prompt : weft_test::sampled_cases({"a", "a prompt of twenty-one"})) {
      CAPTURE(int(kind));
      CAPTURE(prompt);
      const auto config = config_of_kind(kind);
      const std::string text = expected<one>(config, prompt, 60);  // beyond max_seq
      CHECK(text.size() == 60);
      CHECK(generated<one>({}, config, prompt, 60) == text);
      CHECK(generated<many>({.tp = 3}, config, prompt, 60) == text);
      CHECK(generated<many>({.dp = 2, .pp = 2}, config, prompt, 60) == text);
      CHECK(generated<along>({.tp = 3}, config, prompt, 60) == text);
      CHECK(generated<along>({.dp = 2, .tp = 3}, config, prompt, 60) == text);
    }
}
