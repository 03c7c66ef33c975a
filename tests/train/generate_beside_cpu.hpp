// Text written on another backend beside the CPU's, in fp32: greedy, several prompts at once, each token read once; and
// drawn, of one prompt, by logits that stay where they are.
#pragma once

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace weft_test {

/// By all settings together. Of each token a queue that counts brings the first rank a few bytes, and the others none.
template <class Model>
std::vector<std::int32_t> drawn_text(Model& model, std::int64_t tokens) {
  using namespace weft;
  auto& queue = model.ctx().template queue<typename Model::ids::backend>();
  const auto brought = [&] {
    if constexpr (requires { queue.downloaded; }) return queue.downloaded;
    return std::size_t{0};
  };
  const std::size_t before = brought();
  std::vector<std::int32_t> text{7, 7, 2, 9};
  const sampling s{.tokens = tokens,
                   .temperature = 1.2,
                   .top_k = 50,
                   .top_p = 0.95,
                   .min_p = 0.01,
                   .repetition_penalty = 1.3,
                   .seed = 3};
  weft::detail::continue_text(model, text, s, 0, [](std::int32_t) {});
  if constexpr (requires { queue.downloaded; })
    CHECK(brought() - before == (model.ctx().is_first() ? 8 * static_cast<std::size_t>(tokens) : 0));
  return text;
}

template <class Backend, class Config>
void check_text_beside_cpu(const weft::degrees& ranks, const Config& config, std::int64_t tokens) {
  using namespace weft;
  const auto write = [&]<class S>(std::type_identity<S>) {
    std::vector<std::vector<std::int32_t>> out;
    launch<S>(ranks,
              [&](context& ctx) {
                llama<S> model(ctx, config);
                parameter_store<typename S::backend, fp32> store(ctx, model.registry(), config_of<zero3>());
                model.use(store);
                auto mine = generate_tokens(model, {{5, 6, 7}, {1}, {9, 8, 7, 6, 5, 4}},
                                            {.tokens = tokens, .temperature = 0}, {.at_once = 2, .prefill = 4});
                mine.push_back(drawn_text(model, tokens));
                if (ctx.rank().here() == ctx.size().here() - 1) out = std::move(mine);
              },
              {.check = false});
    return out;
  };
  const auto want = write(std::type_identity<strategy<mesh<dp, tp>, zero3>>());
  REQUIRE(want.size() == 4);
  CHECK(want[2].size() == static_cast<std::size_t>(tokens));
  CHECK(write(std::type_identity<strategy<mesh<dp, tp>, zero3, Backend>>()) == want);
}

}  // namespace weft_test
