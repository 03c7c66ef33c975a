// Text from text: it ends before a stop string, on every mesh alike, and the pieces that are told are the text.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <weft/train/generate_text.hpp>
#include <weft/weft.hpp>

#include "../said_by.hpp"

using namespace weft;

namespace {

// A vocabulary of which two tokens make a character.
struct pairs {
  std::vector<std::int32_t> encode(const std::string& text) const {
    std::vector<std::int32_t> out;
    for (const char c : text) out.push_back(static_cast<unsigned char>(c) % 64);
    return out;
  }
  // What isn't whole is U+FFFD, as decoders have it.
  std::string decode(const std::vector<std::int32_t>& tokens) const {
    std::string out;
    for (std::size_t i = 0; i < tokens.size(); i += 2)
      out += i + 1 < tokens.size() ? std::string(1, static_cast<char>('a' + (tokens[i] + tokens[i + 1]) % 5))
                                   : std::string("\xEF\xBF\xBD");
    return out;
  }
};

struct written {
  std::string text, told;
};
template <class S>
written of(const degrees& ranks, const sampling& s) {
  written out;
  launch<S>(ranks, [&](context& ctx) {
    llama<S> model(
        ctx, {.layers = 2, .hidden = 24, .heads = 4, .kv_heads = 2, .vocab = 64, .max_seq = 64, .init_stddev = 0.3});
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<typename S::sharding>());
    model.use(store);
    std::string told;
    const std::string text = generate_text(model, pairs{}, "once", s, [&](std::string_view piece) {
      CHECK(ctx.is_first());
      CHECK(piece.size() > 0);
      told += piece;
    });
    if (ctx.is_first()) out = {text, told};
  });
  return out;
}
using one_rank = strategy<mesh<dp, tp>, fp64>;

}  // namespace

TEST_CASE("a text ends before the first stop string, and what is told is the text") {
  const written all = of<one_rank>({}, {.tokens = 40, .temperature = 1});
  REQUIRE(all.text.size() == 20);
  CHECK(all.told == all.text);
  for (const std::size_t at : {std::size_t{1}, std::size_t{4}, std::size_t{9}})
    for (const std::size_t n : {std::size_t{1}, std::size_t{3}}) {
      const std::string stop = all.text.substr(at, n), other = "no such text";
      const std::string wanted = all.text.substr(0, all.text.find(stop));
      const sampling s{.tokens = 40, .temperature = 1, .stop_strings = {other, stop}};
      const written found = of<one_rank>({}, s);
      CHECK(found.text == wanted);
      CHECK(found.told == wanted);
      const written sharded = of<strategy<mesh<dp, tp>, fp64, zero3>>({.dp = 2, .tp = 2}, s);
      CHECK(sharded.text == wanted);
      CHECK(sharded.told == wanted);
    }
}

TEST_CASE("a decoder that takes back what it said is waited for") {
  const std::string half = "\xEF\xBF\xBD";
  const std::vector<std::string> stops{"end"};
  detail::growing_text text(stops);
  CHECK(text.grow("a" + half, false) == "a");
  CHECK(text.grow("ab", false) == "b");
  CHECK(text.grow(half + half + half, false) == "");  // bytes behind it make no character yet
  CHECK(text.grow("abcen", false) == "c");
  CHECK(text.grow("abceno", false) == "eno");
  CHECK(text.grow(half + half, true) == "");
  CHECK(text.said() == "abceno");
  detail::growing_text other(stops);
  CHECK(other.grow("x en", false) == "x ");
  CHECK(other.grow("x end of it", false) == "");
  CHECK(other.grow("x end of it", true) == "");
  detail::growing_text last(stops);
  CHECK(last.grow("e" + half, true) == "e" + half);
}

TEST_CASE("a decoder that drops the first space, and tokens that a tokenizer doesn't have") {
  struct spaced {
    std::int64_t size() const { return 3; }
    std::string decode(const std::vector<std::int32_t>& tokens) const {
      std::string out;
      for (const std::int32_t t : tokens) out += t == 0 ? " a" : t == 1 ? " b" : "c";
      return out.empty() || out[0] != ' ' ? out : out.substr(1);
    }
  };
  const std::int32_t prompt[] = {0, 2}, written[] = {1, 7, 2};
  const spaced words;
  const detail::continued_text<spaced> text_of(words, prompt);
  CHECK(text_of(written) == " bc");
}

TEST_CASE("a text's end by its tokens, of one text, of many, and of bytes") {
  launch<one_rank>({.dp = 2}, [](context& ctx) {
    llama<one_rank> model(
        ctx, {.layers = 2, .hidden = 24, .heads = 4, .kv_heads = 2, .vocab = 256, .max_seq = 64, .init_stddev = 0.3});
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<replicated>());
    model.use(store);
    const std::vector<std::vector<std::int32_t>> prompts{{1, 2}, {3}, {200, 7, 9}};
    sampling s{.tokens = 12, .temperature = 1};
    const auto whole = generate_tokens(model, prompts, s);
    s.ends = [](std::span<const std::int32_t> written) { return written.size() == 5; };
    const auto five = generate_tokens(model, prompts, s);
    for (std::size_t i = 0; i < prompts.size(); ++i)
      CHECK(five[i] == std::vector<std::int32_t>(whole[i].begin(), whole[i].begin() + 5));
    const std::string bytes = generate(model, "ab", {.tokens = 12, .temperature = 1});
    const std::string stop = bytes.substr(6, 2), wanted = bytes.substr(0, bytes.find(stop));
    CHECK(generate(model, "ab", {.tokens = 12, .temperature = 1, .stop_strings = {stop}}) == wanted);
    CHECK(generate(model, {"ab"}, {.tokens = 12, .temperature = 1, .stop_strings = {stop}})[0] == wanted);
    const auto said = [&](auto&& f) { return weft_test::said_by(f); };
    CHECK(said([&] { generate_tokens(model, prompts, {.stop_strings = {"x"}}); }).find("stop_strings are of text") !=
          std::string::npos);
    CHECK(said([&] { generate(model, "ab", {.stop_strings = {""}}); }).find("a stop string is empty") !=
          std::string::npos);
    CHECK(said([&] { generate_text(model, pairs{}, "", {}); }).find("a prompt has no tokens") != std::string::npos);
  });
}

namespace {

struct own_kind {};  // no std::exception

// What each of four ranks says of write(model, throwing), and that all of them go on afterwards.
template <class Write>
std::vector<std::string> said_on_four(Write write) {
  using S = strategy<mesh<dp, tp>, fp64, zero3>;
  std::vector<std::string> said(4);
  launch<S>({.dp = 2, .tp = 2}, [&](context& ctx) {
    llama<S> model(
        ctx, {.layers = 2, .hidden = 24, .heads = 4, .kv_heads = 2, .vocab = 64, .max_seq = 64, .init_stddev = 0.3});
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<zero3>());
    model.use(store);
    said[static_cast<std::size_t>(ctx.rank().here())] = weft_test::said_by([&] { write(model); });
    CHECK(generate_tokens(model, {{1}, {2}, {3}}, {.tokens = 3}).size() == 3);
  });
  return said;
}
const std::vector<std::string> all_say(const char* what) { return std::vector<std::string>(4, what); }

}  // namespace

TEST_CASE("where a callback throws, all ranks throw what it says: at first, midway, at the last token, behind it") {
  for (const int at : {0, 4, 11}) {
    const auto throwing = [at] {
      return batching{.at_once = 1, .on_token = [at, n = 0](std::size_t, std::int32_t) mutable {
                        if (n++ == at) throw std::runtime_error("the page is full");
                      }};
    };
    CHECK(said_on_four([&](auto& model) {
            generate_tokens(model, {{1, 2}, {3}, {7, 9, 11}}, {.tokens = 4, .temperature = 1}, throwing());
          }) == all_say("the page is full"));
  }
  std::string told;
  for (const std::size_t at : {std::size_t{1}, std::size_t{5}}) {
    CHECK(said_on_four([&](auto& model) {
            std::size_t pieces = 0;
            generate_text(model, pairs{}, "once", {.tokens = 9, .temperature = 1}, [&](std::string_view piece) {
              if (++pieces == at) throw std::range_error(at == 5 ? "at last" : "");
              told = piece;
            });
          }) ==
          all_say(at == 5 ? "at last" : "what was thrown says nothing: it is no std::exception, or its text is empty"));
  }
  CHECK(told.size() == 1);
  CHECK(said_on_four([](auto& model) {
          generate_tokens(model, {{1}}, {.tokens = 4}, {.on_token = [](auto, auto) { throw own_kind(); }});
        }) == all_say("what was thrown says nothing: it is no std::exception, or its text is empty"));
}
TEST_CASE("a rank alone throws what its callback threw") {
  launch<one_rank>({}, [](context& ctx) {
    llama<one_rank> model(ctx, {.layers = 1, .hidden = 24, .heads = 4, .vocab = 64, .max_seq = 64});
    parameter_store<cpu_backend, fp64> store(ctx, model.registry(), config_of<replicated>());
    model.use(store);
    CHECK_THROWS_AS(generate_tokens(model, {{1}}, {.tokens = 2}, {.on_token = [](auto, auto) { throw own_kind(); }}),
                    own_kind);
    CHECK_THROWS_AS(generate_text(model, pairs{}, "once", {.tokens = 3}, [](auto) { throw own_kind(); }), own_kind);
  });
}
