// Text from a byte-level model, under any strategy. Every data-parallel rank reads the same prompt; the first rank
// chooses. Invariant: all ranks return the same text, which depends on the seed and the model, not on the sharding (up
// to rounding of the logits).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <weft/core/random.hpp>
#include <weft/op/convert.hpp>
#include <weft/op/create.hpp>
#include <weft/op/kv_cache.hpp>
#include <weft/op/view.hpp>
#include <weft/tensor/agree.hpp>
#include <weft/tensor/local_run.hpp>
#include <weft/tensor/tape.hpp>
#include <weft/train/choose_tokens.hpp>

namespace weft {
namespace detail {

/// A model that reads a text token by token, with a kv_cache (decoder::reads_by_token).
template <class M>
concept reads_by_token = requires {
  requires M::reads_by_token();
};

/// Logits after the last token of a text that grows, the same on every rank of a tensor-parallel group. Each token is
/// read once, as long as the model's cache has what it needs; from then on, and by a model without one, the whole text
/// is, of at most max_seq tokens, at every call. The model sees the text alone: with padding behind it, a model whose
/// positions depend on the length would read another text.
template <class Model>
class token_reader {
 public:
  /// Of texts that grow to at most so many tokens.
  token_reader(Model& model, std::int64_t most) : model_(model), ctx_(model.ctx()) {
    if constexpr (reads_by_token<Model>) {
      most = std::min<std::int64_t>(most, model.config().max_seq);
      while (most > 0 && !model.keeps(most)) --most;
      if (most > 0) cache_.emplace(ctx_, 1, most);
    }
  }

  /// f of these logits, [1, 1, vocab]. They stay where they are.
  template <class F>
  auto next_logits(const std::vector<std::int32_t>& text, const F& f) {
    const auto n = static_cast<std::int64_t>(text.size());
    if constexpr (reads_by_token<Model>)
      if (cache_ && n <= cache_->capacity()) {
        const std::int64_t read = cache_->length(0);
        if (n - read > 1) model_.prefill(ids_of(text.data() + read, n - read - 1), *cache_);
        return f(last(model_.decode(ids_of(text.data() + (n - 1), 1), *cache_)));
      }
    cache_.reset();
    const std::int64_t seen = std::min<std::int64_t>(model_.config().max_seq, n);
    const scoped_value<bool> one(ctx_.one_document, true);  // as a cache has it
    return f(last(model_(ids_of(text.data() + (n - seen), seen))));
  }

 private:
  using ids = typename Model::ids;

  // The same on every data-parallel rank: [batch/dp = 1, seq].
  ids ids_of(const std::int32_t* tokens, std::int64_t n) {
    const ids x = empty_tensor<ids>(ctx_, {2, {shards_of<layout_of<ids>, batch>(ctx_), n}}, memory::data);
    write_by_host<typename ids::backend, std::int32_t>(ctx_, untyped(x).data,
                                                       [&](std::int32_t* out) { std::copy_n(tokens, n, out); });
    return x;
  }
  template <any_tensor X>
  static auto last(const X& logits) {
    return all_gather<tp>(slice<seq>(logits, logits.template global_extent<seq>() - 1, 1));
  }

  Model& model_;
  context& ctx_;
  std::optional<kv_cache> cache_;
};

/// What chooses a token may fail on the rank that has the logits, and has to on all: what it said goes into `said`, and
/// the place of the token tells the others so.
inline constexpr std::int32_t failed_choice = -2;
template <class F>
std::int32_t choose_or_say(const context& ctx, const F& choose, std::string& said) {
  std::int32_t token = failed_choice;
  run_or_say(ctx, said, [&] { token = choose(); });
  return token;
}

/// Adds `count` tokens to a text: the first rank takes choose(logits, i) for the i-th, of logits [1, 1, vocab], and all
/// have it; -1 ends it sooner. All ranks call it, and where choose fails, all throw what it said. Cost: a forward pass
/// of each token, once; beyond what token_reader keeps, one of all.
template <class Model, class Choose>
void continue_tokens(Model& model, std::vector<std::int32_t>& text, std::int64_t count, Choose&& choose) {
  context& ctx = model.ctx();
  const no_grad off(ctx);
  const auto given = static_cast<std::int64_t>(text.size());
  const std::int64_t most = model.config().max_seq;  // no sum of both: count may be what is never reached
  token_reader<Model> reader(model, given >= most || count > most - given ? most : given + count - 1);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int32_t token = 0;
    std::string said;
    reader.next_logits(text, [&](const auto& logits) {
      if (ctx.is_first())
        token = choose_or_say(
            ctx, [&] { return choose(logits, i); }, said);
    });
    ctx.world.host().broadcast(&token, sizeof token, 0, {"next token"}).wait();
    if (token == failed_choice) fail_as(ctx, 0, said);
    if (token < 0) return;
    text.push_back(token);
  }
}

/// Draws for text number p of several, of which the first has those of a text alone.
inline philox draws_of(const sampling& s, std::size_t p) { return {s.seed, stream_of("sample") + p}; }

inline bool ended(const sampling& s, std::span<const std::int32_t> written) { return s.ends && s.ends(written); }

/// Where the first of the stop strings begins; npos: nowhere.
inline std::size_t stop_in(std::string_view text, const std::vector<std::string>& stop_strings) {
  std::size_t first = text.npos;
  for (const std::string& end : stop_strings) first = std::min(first, text.find(end));
  return first;
}
/// The settings, with texts that end as soon as text_of(tokens) has a stop string.
template <class TextOf>
sampling with_stops(sampling s, TextOf text_of) {
  if (s.stop_strings.empty()) return s;
  s.ends = [own = s.ends, stops = s.stop_strings, text_of](std::span<const std::int32_t> written) {
    return (own && own(written)) || stop_in(text_of(written), stops) != std::string::npos;
  };
  return s;
}
/// The text up to the first stop string.
inline std::string before_stop(std::string text, const sampling& s) {
  text.resize(std::min(text.size(), stop_in(text, s.stop_strings)));
  return text;
}

/// Text number p, by these settings. told(token): on the first rank, of each.
template <class Model, class Told>
void continue_text(Model& model, std::vector<std::int32_t>& text, const sampling& s, std::size_t p, Told&& told) {
  const philox numbers = draws_of(s, p);
  const std::ptrdiff_t given = std::ssize(text);
  continue_tokens(model, text, s.tokens, [&](const auto& logits, std::int64_t i) {
    if ((s.stop && *s.stop) || (i > 0 && ended(s, std::span(text).subspan(static_cast<std::size_t>(given))))) return -1;
    const text_to_choose one{&text, static_cast<double>(numbers.uniform(static_cast<std::uint64_t>(i)))};
    const std::int32_t token = choose_tokens(logits, {&one, 1}, s)[0];
    if (token == s.end_token) return -1;
    told(token);
    return token;
  });
}

inline void require_bytes(std::int64_t vocab) {
  require(vocab == 256, "generate() reads bytes, and the model's vocabulary has ", vocab,
          " tokens, not 256: generate_tokens() continues lists of tokens");
}
/// A text of no bytes begins with a line's end.
inline std::vector<std::int32_t> tokens_of_bytes(std::string_view text) {
  std::vector<std::int32_t> out;
  for (const char c : text.empty() ? std::string_view("\n") : text) out.push_back(static_cast<unsigned char>(c));
  return out;
}
inline std::string bytes_of_tokens(std::span<const std::int32_t> tokens) {
  return std::string(tokens.begin(), tokens.end());
}

}  // namespace detail

/// Continues `prompt` by `s.tokens` bytes, fewer where one of s.stop_strings, s.ends, s.end_token or s.stop ends it;
/// the prompt itself is not returned. All ranks call it. The model sees its last max_seq tokens. Cost: a forward pass
/// of each token, once, while the text fits into max_seq; from there on one of max_seq tokens for each.
template <class Model>
std::string generate(Model& model, std::string_view prompt, const sampling& s = {}) {
  check(s);
  detail::require_bytes(model.config().vocab);
  std::vector<std::int32_t> text = detail::tokens_of_bytes(prompt);
  const std::size_t given = text.size();
  detail::continue_text(model, text, detail::with_stops(s, detail::bytes_of_tokens), 0, [](std::int32_t) {});
  return detail::before_stop(detail::bytes_of_tokens(std::span(text).subspan(given)), s);
}

}  // namespace weft
