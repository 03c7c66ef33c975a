// Batches of tokens from files, for the trainer: each window of a file once an epoch, in an order of the epoch's own;
// documents too, where that is asked for.
// Invariant: a sequence is a function of (seed, step, row) alone, so it is the same for every sharding and every number
// of micro-batches, and a run that goes on needs nothing but its step; a rank makes only its own rows.
#pragma once

#include <numeric>
#include <optional>

#include <weft/io/blend.hpp>
#include <weft/io/document_order.hpp>
#include <weft/io/text_dataset.hpp>

namespace weft {

/// A token file among others. weight: how often it is drawn, beside the others' weights; shares are kept in steps of
/// 2^-31. 0 for all: by their tokens, or by their sequences where a sequence holds one document.
struct weighted_tokens {
  std::string path;  // as token_file takes it
  double weight = 0;
};

/// What a token_dataset is told.
struct token_settings {
  double held_out = 0.05;  // share of each file that is kept for validation: its last documents, at most twice
  std::vector<weighted_tokens> validation = {};  // files to validate with instead; then nothing is held out
  std::int32_t end_token = -1;     // put behind each document where the file has none there; -1: nothing is
  std::int64_t vocab = 0;          // the model's: a token of a file that isn't below it is refused; 0: none is
  bool shuffle_documents = false;  // each epoch in an order of its own; else windows are, over the file's order
  bool packed = true;              // false: a sequence holds one document, or a part, and is filled up without a loss
};

/// Sequences of token files for the trainer. Documents lie one behind the other, and a sequence is a window over them:
/// attention sees across their borders. Where they aren't packed, a sequence is a document from its first token on, or
/// of a longer one its next part; behind its end stands the token 0, and targets are negative. Where a pair of files
/// `stem.loss.bin` and `stem.loss.idx` stands beside a file's, with 0 or 1 for each token, targets with a 0 are
/// negative, which cross_entropy leaves out.
class token_dataset {
 public:
  /// The seed is the context's. Throws weft::file_error where a file can't be read or isn't sound.
  token_dataset(context& ctx, const std::string& path, const token_settings& settings = {})
      : token_dataset(ctx, std::vector<weighted_tokens>{{path}}, settings) {}
  token_dataset(context& ctx, const std::vector<weighted_tokens>& files, const token_settings& settings = {})
      : ctx_(&ctx), vocab_(settings.vocab), shuffled_(settings.shuffle_documents), packed_(settings.packed) {
    const double held_out = settings.held_out;
    require(!files.empty(), "a token_dataset of no file; name one");
    require(held_out >= 0 && held_out < 1, "held_out is ", held_out, "; it is a share of each file from 0 to below 1");
    require(vocab_ >= 0, "token_settings.vocab is ", vocab_, "; it is the model's vocabulary, or 0");
    require(vocab_ == 0 || settings.end_token < vocab_, "the end_token ", settings.end_token,
            " isn't of the model's vocabulary of ", vocab_, " tokens");
    const bool own = settings.validation.empty();
    add(files, settings.end_token, [&](const detail::token_stream& s) {
      const std::int64_t size = s.size();
      const auto kept = own ? static_cast<std::int64_t>(held_out * static_cast<double>(size)) : 0;
      return kept == 0 ? size : s.border_near(size - kept);
    });
    training_files_ = parts_.size();
    if (!own) add(settings.validation, settings.end_token, [](const detail::token_stream&) { return 0; });
    if (!own) blend_of([&](const part& p) { return is_trained(p) ? 0 : p.weight; });  // wrong weights are told now
    shares_ = blend_of([&](const part& p) { return is_trained(p) ? p.weight : 0; });
  }

  std::int64_t training_tokens() const {
    return sum([](const part& p) { return p.split; });
  }
  std::int64_t validation_tokens() const {
    return sum([](const part& p) { return p.held_out(); });
  }
  /// Sequences of `length` that all files have together: about those of an epoch, where no weights were given.
  std::int64_t sequences(std::int64_t length) const {
    return sum([&](const part& p) { return sequences_of(p.training(), length); });
  }
  /// Whether the held-out part of a file is long enough for a sequence.
  bool can_validate(std::int64_t length) const {
    return sum([&](const part& p) { return sequences_of(p.validation(), length); }) > 0;
  }

  /// Rows [first, first + count) of step `step`'s batch of `batch` sequences, as one global batch of `count`. Steps
  /// count from 1.
  template <any_tensor Ids>
  token_batch<Ids> train(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t length,
                         std::int64_t batch) const {
    require(step >= 1, "step ", step, " of a token_dataset; steps count from 1");
    require(first >= 0 && count >= 1 && count <= batch - first, "sequences ", first, " to ", first + count - 1,
            " of a batch of ", batch, ": it doesn't have them");
    for (const part& p : parts_)
      require(!is_trained(p) || sequences_of(p.training(), length) > 0, "the file ", p.stream->path(), " has ", p.split,
              " tokens to train on, ", too_few(length), "; give a longer file, a smaller held_out or a smaller seq");
    const auto shares =
        packed_ ? shares_
                : blend_of([&](const part& p) { return is_trained(p) ? share_of(p, p.training(), length) : 0; });
    return rows<Ids>(count, length, [&](std::int64_t row) {
      const auto at = shares->at((step - 1) * batch + first + row);
      const part& p = parts_[at.part];
      const std::int64_t all = sequences_of(p.training(), length), epoch = at.number / all;
      const philox key = key_of("training windows", at.part, epoch);
      const std::int64_t n = detail::random_permutation(all, key)(at.number % all);
      if (!packed_) return row_of(p.training(), n, length);
      // What no window holds at the end is left out at the beginning in part, another part each epoch.
      const std::int64_t room = p.split - all * length;
      const std::int64_t shift = static_cast<std::int64_t>(key.block(~std::uint64_t{0})[0] % std::uint64_t(room));
      place out{&p, shift + n * length, length, {}};
      if (shuffled_) out.order.emplace(*p.stream, 0, p.split, key_of("training documents", at.part, epoch));
      return out;
    });
  }
  /// Rows [first, first + count) of the validation set: the same windows each time, drawn by the files' weights; where
  /// there are fewer, from their first again.
  template <any_tensor Ids>
  token_batch<Ids> validation(std::int64_t first, std::int64_t count, std::int64_t length) const {
    const part& last = parts_.back();
    require(can_validate(length), "the file ", last.stream->path(), " has ", last.held_out(),
            " tokens for validation, ", too_few(length), "; give a longer file, a larger held_out or a smaller seq");
    const auto shares = blend_of([&](const part& p) {
      return sequences_of(p.validation(), length) > 0 ? share_of(p, p.validation(), length) : 0;
    });
    return rows<Ids>(count, length, [&](std::int64_t row) {
      const auto at = shares->at(first + row);
      const part& p = parts_[at.part];
      const std::int64_t all = sequences_of(p.validation(), length);
      const std::int64_t n = detail::random_permutation(all, key_of("validation windows", at.part, 0))(at.number % all);
      return packed_ ? place{&p, p.split + n * length, length, {}} : row_of(p.validation(), n, length);
    });
  }

 private:
  struct part {
    std::shared_ptr<const detail::token_stream> stream;
    std::int64_t split;  // tokens to train on; those behind are held out
    double weight;
    bool weighted;  // by whoever named it
    std::int64_t held_out() const { return stream->size() - split; }
    struct range {
      const part* of;
      std::int64_t begin, end;
    };
    range training() const { return {this, 0, split}; }
    range validation() const { return {this, split, stream->size()}; }
  };
  struct place {
    const part* of;
    std::int64_t begin, count;                        // tokens, behind which the row is filled up
    std::optional<detail::shuffled_documents> order;  // of which begin is a place; none: of the stream

    // read(begin, count): of the stream.
    template <class F>
    void each(std::int64_t ahead, F&& read) const {
      order ? order->each(begin + ahead, count, read) : read(begin + ahead, count);
    }
  };

  template <class Split>
  void add(const std::vector<weighted_tokens>& files, std::int32_t end_token, Split&& split_of) {
    bool weighted = false;
    for (const weighted_tokens& f : files) weighted = weighted || f.weight != 0;
    for (const weighted_tokens& f : files) {
      require(!weighted || (f.weight > 0 && std::isfinite(f.weight)), "the file ", f.path, " has the weight ", f.weight,
              " beside others; give each a weight above 0, or none any");
      auto stream = detail::open_token_stream(f.path, end_token);
      const std::int64_t split = split_of(*stream), drawn_of = split > 0 ? split : stream->size();
      parts_.push_back({std::move(stream), split, weighted ? f.weight : static_cast<double>(drawn_of), weighted});
    }
  }
  bool is_trained(const part& p) const { return static_cast<std::size_t>(&p - parts_.data()) < training_files_; }

  template <class F>
  std::int64_t sum(F&& of) const {
    return std::accumulate(parts_.begin(), parts_.end(), std::int64_t{0},
                           [&](std::int64_t before, const part& p) { return before + of(p); });
  }
  std::int64_t sequences_of(const part::range& r, std::int64_t length) const {
    if (r.begin == r.end) return 0;
    return packed_ ? (r.end - r.begin - 1) / length
                   : detail::document_rows(*r.of->stream, r.begin, r.end, length).count();
  }
  place row_of(const part::range& r, std::int64_t row, std::int64_t length) const {
    const auto at = detail::document_rows(*r.of->stream, r.begin, r.end, length)[row];
    return {r.of, at.begin, at.size, {}};
  }
  std::string too_few(std::int64_t length) const {
    return packed_ ? detail::text("fewer than a sequence of ", length, " and the token after it")
                   : "and no document of two";
  }
  // How often a part is drawn: where documents are rows they have other numbers of tokens.
  double share_of(const part& p, const part::range& r, std::int64_t length) const {
    return packed_ || p.weighted ? p.weight : static_cast<double>(sequences_of(r, length));
  }
  template <class F>
  std::shared_ptr<const detail::blend> blend_of(F&& weight_of) const {
    std::vector<double> weights;
    for (const part& p : parts_) weights.push_back(weight_of(p));
    if (std::accumulate(weights.begin(), weights.end(), 0.0) == 0) weights[0] = 1;  // files without a token
    return std::make_shared<const detail::blend>(weights);
  }
  philox key_of(std::string_view what, std::size_t file, std::int64_t epoch) const {
    const auto w = philox{ctx_->seed, stream_of(what) + file}.block(static_cast<std::uint64_t>(epoch));
    return {std::uint64_t{w[0]} << 32 | w[1], std::uint64_t{w[2]} << 32 | w[3]};
  }

  template <any_tensor Ids, class Place>
  token_batch<Ids> rows(std::int64_t count, std::int64_t length, Place&& place_of) const {
    static_assert(
        std::same_as<dims_of<Ids>, dims<weft::batch, seq>> && std::same_as<typename Ids::element_type, std::int32_t>,
        "weft: a token_dataset makes int32 tensors of dims<batch, seq>");
    const auto made = [&] { return detail::empty_tensor<Ids>(*ctx_, {2, {count, length}}, memory::data); };
    token_batch<Ids> out{made(), made()};
    const auto fill = [&](const Ids& x, std::int32_t behind, auto&& read) {
      std::int64_t row = -1;
      std::vector<std::int32_t> window;  // of that row
      detail::write_elements<typename Ids::backend, std::int32_t>(
          *ctx_, untyped(x).data, detail::placed(x), [&](std::int64_t index) -> std::int32_t {
            if (index / length != row) {
              row = index / length;
              const place at = place_of(row);
              window.clear();
              read(at, window);
              check_tokens(*at.of, window);
              window.resize(static_cast<std::size_t>(length), behind);
            }
            return window[static_cast<std::size_t>(index % length)];
          });
    };
    fill(out.tokens, 0, [&](const place& p, auto& window) {
      p.each(0, [&](std::int64_t begin, std::int64_t n) { p.of->stream->tokens(begin, n, window); });
    });
    fill(out.targets, -1, [&](const place& p, auto& window) {
      p.each(1, [&](std::int64_t begin, std::int64_t n) { p.of->stream->targets(begin, n, window); });
    });
    return out;
  }
  // A device would take a token beyond the tables' ends, and read what lies there.
  void check_tokens(const part& p, const std::vector<std::int32_t>& window) const {
    if (vocab_ == 0) return;
    for (const std::int32_t t : window)
      if (t >= vocab_)
        throw file_error(detail::text("the file ", p.stream->path(), " has the token ", t,
                                      ", and the model's vocabulary ", vocab_,
                                      " tokens: write the file again by the model's own tokenizer"));
  }

  context* ctx_;
  std::int64_t vocab_;
  bool shuffled_, packed_;
  std::vector<part> parts_;
  std::size_t training_files_ = 0;  // the first of them; behind them are those to validate with
  std::shared_ptr<const detail::blend> shares_;
};

}  // namespace weft
