// Text written on another backend beside the CPU's, in fp32: greedy, several prompts at once, each token read once.
#pragma once

#include <doctest/doctest.h>

#include <weft/weft.hpp>

namespace weft_test {

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
                if (ctx.rank().here() == ctx.size().here() - 1) out = std::move(mine);
              },
              {.check = false});
    return out;
  };
  const auto want = write(std::type_identity<strategy<mesh<dp, tp>, zero3>>());
  REQUIRE(want.size() == 3);
  CHECK(want[2].size() == static_cast<std::size_t>(tokens));
  CHECK(write(std::type_identity<strategy<mesh<dp, tp>, zero3, Backend>>()) == want);
}

}  // namespace weft_test
