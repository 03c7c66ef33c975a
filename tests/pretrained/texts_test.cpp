// Texts of folders that transformers saved, against those that it generates: token for token. make_texts.py made them.
#include <doctest/doctest.h>

#include <weft/io/pretrained.hpp>
#include <weft/weft.hpp>

#include "../source_folder.hpp"

namespace {
using namespace weft;
using texts = std::vector<std::vector<std::int32_t>>;

template <class... Policies>
using on = strategy<mesh<dp, tp, pp>, fp64, Policies...>;

// Of lengths that differ, in one batch.
template <class S>
texts written(const degrees& ranks, const std::string& folder, const texts& prompts) {
  texts out;
  launch<S>(ranks, [&](context& ctx) {
    const auto by = [&](auto p) {
      // Each ends with the model's last position, as transformers ends it.
      const auto all =
          generate_tokens(p.model, prompts, {.tokens = 15, .temperature = 0}, {.at_once = 2, .prefill = 3});
      p.model.release();
      if (ctx.is_first()) out = all;
    };
    if (folder.ends_with("gpt2"))
      by(gpt2_from_pretrained<S>(ctx, folder));
    else
      by(llama_from_pretrained<S>(ctx, folder));
  });
  for (std::size_t i = 0; i < out.size(); ++i) out[i].resize(16 - prompts[i].size());
  return out;
}
}  // namespace

TEST_CASE("texts are those of transformers, token for token") {
  for (const std::string family : {"gpt2", "llama2", "llama3", "mistral", "qwen2", "qwen3"}) {
    CAPTURE(family);
    const std::string folder = weft_test::source_file("pretrained/" + family);
    const nlohmann::json all = read_json(folder + "/texts.json");
    const auto prompts = all.at("prompts").get<texts>(), expected = all.at("texts").get<texts>();
    REQUIRE(expected.size() == 6);
    CHECK(written<on<>>({}, folder, prompts) == expected);
    CHECK(written<on<zero3>>({.dp = 2, .tp = 2}, folder, prompts) == expected);
    CHECK(written<on<sequence_parallel>>({.tp = 2, .pp = 2}, folder, prompts) == expected);
  }
}
