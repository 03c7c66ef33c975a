// Many texts in one batch, by a model that reads token by token. Invariant: every rank knows every text, so all decide
// alike; a text depends on its prompt, its number and the settings, not on what is written beside it (up to rounding).
#pragma once

#include <algorithm>
#include <functional>
#include <span>

#include <weft/train/generate.hpp>
#include <weft/train/kept_text.hpp>

namespace weft {

/// How many texts are written at once.
struct batching {
  std::int64_t at_once = 8;    // on each data-parallel rank; where one has ended, the next prompt takes its place
  std::int64_t prefill = 256;  // a prompt is read in passes of at most so many tokens
  /// Called on the first rank for each token as it is chosen: the prompt's number, the token. Where it throws, all
  /// ranks throw weft::failure with what that says (a rank alone what it threw).
  std::function<void(std::size_t, std::int32_t)> on_token = {};
};

namespace detail {

using token_list = std::vector<std::int32_t>;

/// By a model that reads token by token.
template <class Model>
class batch_writer {
 public:
  /// kept: null, or what is kept of the text with which the one prompt begins.
  batch_writer(Model& model, const std::vector<token_list>& prompts, const sampling& s, const batching& b,
               kept_text* kept)
      : model_(model),
        ctx_(model.ctx()),
        settings_(s),
        batching_(b),
        prompts_(prompts),
        texts_(prompts),
        parts_(shards_of<layout_of<ids>, batch>(ctx_)),
        kept_(kept),
        cache_(kept ? kept->cache_for(model, capacity_for(model, prompts, s))
                    : own_cache_.emplace(ctx_, std::min(b.at_once, (std::ssize(prompts) + parts_ - 1) / parts_),
                                         capacity_for(model, prompts, s))),
        rows_(static_cast<std::size_t>(parts_ * cache_.sequences())) {
    const std::int32_t index = shard_index<layout_of<ids>, batch>(ctx_);
    first_ = index * cache_.sequences();
    std::vector<std::int32_t> all(static_cast<std::size_t>(ctx_.size().here()));
    gather(&index, all.data(), 1);
    for (std::int32_t d = 0; d < parts_; ++d) speaks_for_.push_back(std::find(all.begin(), all.end(), d) - all.begin());
  }

  /// What continues each prompt.
  std::vector<token_list> run() {
    const no_grad off(ctx_);
    while (!stopped_ && fill()) {
      while (read_prompts()) {
      }
      write_tokens();
    }
    fail_where_said(ctx_, said_);
    if (kept_) kept_->keep(std::span(texts_[0]).subspan(at(rows_[0].begin), at(rows_[0].read)));
    for (std::size_t p = 0; p < texts_.size(); ++p)
      texts_[p].erase(texts_[p].begin(), texts_[p].begin() + std::ssize(prompts_[p]));
    return std::move(texts_);
  }

 private:
  using ids = typename Model::ids;
  // A sequence of the batch, of any rank.
  struct row {
    std::ptrdiff_t prompt = -1;  // -1: none
    std::int64_t begin = 0;      // of what the model sees of the text
    std::int64_t read = 0;       // from there on, kept in the cache
  };

  static std::int64_t capacity_for(const Model& model, const std::vector<token_list>& prompts, const sampling& s) {
    std::int64_t longest = 1;
    for (const token_list& p : prompts) longest = std::max<std::int64_t>(longest, std::ssize(p));
    const std::int64_t most = model.config().max_seq;
    return longest >= most || s.tokens > most - longest ? most : longest + s.tokens;
  }
  const token_list& text(const row& r) const { return texts_[static_cast<std::size_t>(r.prompt)]; }
  std::int64_t unread(const row& r) const { return r.prompt < 0 ? 0 : std::ssize(text(r)) - r.begin - r.read; }
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  void forget(std::size_t i, std::int64_t but = 0) {
    rows_[i].read = but;
    const std::int64_t own = static_cast<std::int64_t>(i) - first_;
    if (own >= 0 && own < cache_.sequences()) cache_.truncate(own, but);
  }

  // Gives free rows their next prompts. False where all is written.
  bool fill() {
    bool any = false;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      row& r = rows_[i];
      if (r.prompt < 0 && next_ < prompts_.size()) {
        r = {static_cast<std::ptrdiff_t>(next_++)};
        const std::int64_t seen = std::min(std::ssize(text(r)), cache_.capacity());
        r.begin = std::ssize(text(r)) - seen;
        forget(i, kept_ ? kept_->begin(std::span(text(r)).last(at(seen))) : 0);
      }
      if (r.prompt < 0) continue;
      any = true;
      if (std::ssize(text(r)) - r.begin <= cache_.capacity()) continue;
      r.begin = std::ssize(text(r)) - cache_.capacity();  // the text's last tokens alone, anew
      forget(i);
    }
    return any;
  }

  // The next given[i] tokens of each row, as this rank has them; [batch/dp, the most that one is given].
  ids next_tokens(const std::vector<std::int64_t>& given) {
    const std::int64_t width = *std::max_element(given.begin(), given.end());
    const ids x = empty_tensor<ids>(ctx_, {2, {std::ssize(rows_), width}}, memory::data);
    write_by_host<typename ids::backend, std::int32_t>(ctx_, untyped(x).data, [&](std::int32_t* out) {
      std::fill_n(out, cache_.sequences() * width, 0);
      for (std::int64_t i = 0; i < cache_.sequences(); ++i) {
        const row& r = rows_[static_cast<std::size_t>(first_ + i)];
        if (r.prompt >= 0)
          std::copy_n(text(r).begin() + r.begin + r.read, given[static_cast<std::size_t>(first_ + i)], out + i * width);
      }
    });
    return x;
  }
  std::span<const std::int64_t> own(const std::vector<std::int64_t>& given) const {
    return std::span(given).subspan(static_cast<std::size_t>(first_), static_cast<std::size_t>(cache_.sequences()));
  }
  template <class F>
  auto pass(F&& tokens_of) {
    std::vector<std::int64_t> given;
    for (const row& r : rows_) given.push_back(r.prompt < 0 ? 0 : tokens_of(r));
    return given;
  }
  void have_read(const std::vector<std::int64_t>& given) {
    for (std::size_t i = 0; i < given.size(); ++i) rows_[i].read += given[i];
  }

  // A pass over prompts, up to the last token of each. False where nothing is left of them.
  bool read_prompts() {
    const auto given = pass([&](const row& r) { return std::min(unread(r) - 1, batching_.prefill); });
    if (*std::max_element(given.begin(), given.end()) == 0) return false;
    model_.prefill(next_tokens(given), cache_, own(given));
    have_read(given);
    return true;
  }

  // A token more of each text.
  void write_tokens() {
    const auto given = pass([](const row&) { return std::int64_t{1}; });
    const auto logits = all_gather<tp>(model_.decode(next_tokens(given), cache_, own(given)));
    have_read(given);
    const std::int64_t each = cache_.sequences();
    token_list mine(at(each + 1), -1), all(mine.size() * static_cast<std::size_t>(ctx_.size().here()));
    std::vector<text_to_choose> texts(at(each));
    for (std::int64_t i = 0; i < each; ++i) {
      const row& r = rows_[at(first_ + i)];
      if (r.prompt < 0) continue;
      const auto p = static_cast<std::size_t>(r.prompt);
      const auto n = static_cast<std::uint64_t>(std::ssize(texts_[p]) - std::ssize(prompts_[p]));
      texts[at(i)] = {&texts_[p], static_cast<double>(draws_of(settings_, p).uniform(n))};
    }
    if (said_.empty())
      run_or_say(ctx_, said_,
                 [&] { std::copy_n(choose_tokens(logits, texts, settings_).begin(), texts.size(), mine.begin()); });
    mine.back() = settings_.stop && *settings_.stop ? 1 : 0;  // the first rank's counts
    if (!said_.empty()) mine.back() = failed_choice;          // and any rank's
    gather(mine.data(), all.data(), each + 1);
    for (std::int64_t r = 0; r < ctx_.size().here(); ++r)
      if (all[at(r * (each + 1) + each)] == failed_choice) fail_as(ctx_, static_cast<int>(r), said_);
    stopped_ = all[static_cast<std::size_t>(each)] == 1;
    if (stopped_) return;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      if (rows_[i].prompt >= 0)
        append(
            rows_[i],
            all[static_cast<std::size_t>(speaks_for_[static_cast<std::size_t>(at / each)] * (each + 1) + at % each)]);
    }
  }
  void append(row& r, std::int32_t token) {
    const auto p = static_cast<std::size_t>(r.prompt);
    const bool ends = token == settings_.end_token;
    if (!ends) {
      texts_[p].push_back(token);
      if (batching_.on_token && ctx_.is_first() && said_.empty())
        run_or_say(ctx_, said_, [&] { batching_.on_token(p, token); });
    }
    const auto written = std::span<const std::int32_t>(texts_[p]).subspan(prompts_[p].size());
    if (ends || std::ssize(written) == settings_.tokens || (!written.empty() && ended(settings_, written)))
      r.prompt = -1;
  }
  void gather(const std::int32_t* mine, std::int32_t* all, std::int64_t n) {
    ctx_.world.host().all_gather(mine, all, n * static_cast<std::int64_t>(sizeof *mine), {"next tokens"}).wait();
  }

  Model& model_;
  context& ctx_;
  const sampling& settings_;
  const batching& batching_;
  const std::vector<token_list>& prompts_;
  std::vector<token_list> texts_;
  std::int64_t parts_, first_ = 0;  // ranks that the batch is split over; this rank's first row
  kept_text* kept_;
  std::optional<kv_cache> own_cache_;       // where nothing is kept
  kv_cache& cache_;                         // of this rank's rows
  std::vector<row> rows_;                   // of all ranks
  std::vector<std::ptrdiff_t> speaks_for_;  // by part of the batch: a rank that has its logits
  std::size_t next_ = 0;                    // prompt
  bool stopped_ = false;
  std::string said_;  // by what failed on this rank: the others are told with the next tokens, or at the end
};

}  // namespace detail

}  // namespace weft
