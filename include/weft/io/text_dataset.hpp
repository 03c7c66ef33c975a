// Batches of byte tokens: windows of a corpus at random places. Invariant: sequence i of step t is the same text for
// every sharding and every number of micro-batches, and a rank makes only its own rows.
#pragma once

#include <weft/core/random.hpp>
#include <weft/io/text_corpus.hpp>
#include <weft/op/create.hpp>
#include <weft/tensor/context.hpp>

namespace weft {

/// What a model reads and what it should say next, each [batch, seq] of int32 and placed alike.
template <any_tensor Ids>
struct token_batch {
  Ids tokens, targets;
};

namespace detail {
/// Rows [first, first + count) of a step's batch of so many: data's `train` takes these five numbers, or all but how
/// many the batch has.
template <any_tensor Ids, class Data>
auto training_batch(const Data& data, std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t seq,
                    std::int64_t batch) {
  if constexpr (requires { data.template train<Ids>(step, first, count, seq, batch); })
    return data.template train<Ids>(step, first, count, seq, batch);
  else
    return data.template train<Ids>(step, first, count, seq);
}
}  // namespace detail

/// Sequences of a text file for the trainer, drawn by step and row, the same for any number of ranks; the last part is
/// held out for validation.
class text_dataset {
 public:
  static constexpr std::int64_t vocab_size = 256;

  /// `held_out`: share of the text, from its end, that is kept for validation. The seed is the context's.
  text_dataset(context& ctx, const std::string& path, double held_out = 0.05)
      : text_dataset(ctx, open_corpus(path), held_out) {}
  text_dataset(context& ctx, std::shared_ptr<const text_corpus> text, double held_out = 0.05)
      : ctx_(&ctx), text_(std::move(text)) {
    require(held_out >= 0 && held_out < 1, "held_out is ", held_out, "; it is a share of the text from 0 to below 1");
    split_ = training_part(*text_, held_out);
  }

  const text_corpus& corpus() const { return *text_; }
  std::int64_t training_bytes() const { return split_; }
  std::int64_t validation_bytes() const { return static_cast<std::int64_t>(text_->bytes.size()) - split_; }

  /// Throws unless the training part of a text holds a window of `length` tokens and the one after.
  static void check(const text_corpus& text, double held_out, std::int64_t length) {
    check_length(text, training_part(text, held_out), length);
  }
  /// Whether the held-out part is long enough for a window.
  bool can_validate(std::int64_t length) const { return validation_bytes() >= length + 1; }

  /// Rows [first, first + count) of step `step`'s batch, as one global batch of `count` sequences.
  template <any_tensor Ids>
  token_batch<Ids> train(std::int64_t step, std::int64_t first, std::int64_t count, std::int64_t length) const {
    check_length(*text_, split_, length);
    return rows<Ids>(first, count, length,
                     [&](std::int64_t i) { return place("train", (step << 24) + i, 0, split_, length); });
  }
  /// Rows [first, first + count) of the validation set: the same windows each time.
  template <any_tensor Ids>
  token_batch<Ids> validation(std::int64_t first, std::int64_t count, std::int64_t length) const {
    require(can_validate(length), "the corpus ", text_->path, " keeps ", validation_bytes(),
            " bytes for validation, fewer than a sequence of ", length,
            " and the byte after it; give a longer text, a larger held_out or a smaller seq");
    return rows<Ids>(first, count, length,
                     [&](std::int64_t i) { return place("validation", i, split_, validation_bytes(), length); });
  }

 private:
  static std::int64_t training_part(const text_corpus& text, double held_out) {
    const auto n = static_cast<std::int64_t>(text.bytes.size());
    return n - static_cast<std::int64_t>(held_out * static_cast<double>(n));
  }
  static void check_length(const text_corpus& text, std::int64_t bytes, std::int64_t length) {
    require(bytes >= length + 1, "the corpus ", text.path, " has ", bytes,
            " bytes to train on, fewer than a sequence of ", length,
            " and the byte after it; give a longer text or a smaller seq");
  }

  // Where a window begins: uniform over [begin, begin + size - length), a function of (seed, part, index).
  WEFT_LINKED std::int64_t place(std::string_view part, std::int64_t index, std::int64_t begin, std::int64_t size,
                                 std::int64_t length) const {
    const auto words = philox{ctx_->seed, stream_of(part)}.block(static_cast<std::uint64_t>(index));
    const std::uint64_t random = std::uint64_t{words[0]} << 32 | words[1];
    return begin + static_cast<std::int64_t>(random % static_cast<std::uint64_t>(size - length));
  }

  template <any_tensor Ids, class Place>
  token_batch<Ids> rows(std::int64_t first, std::int64_t count, std::int64_t length, Place&& begin_of) const {
    static_assert(
        std::same_as<dims_of<Ids>, dims<batch, seq>> && std::same_as<typename Ids::element_type, std::int32_t>,
        "weft: a text_dataset makes int32 tensors of dims<batch, seq>");
    const auto made = [&] { return detail::empty_tensor<Ids>(*ctx_, {2, {count, length}}, memory::data); };
    token_batch<Ids> out{made(), made()};
    const auto fill = [&](const Ids& x, std::int64_t ahead) {
      std::int64_t row = -1;
      const char* window = nullptr;  // of that row
      detail::write_elements<typename Ids::backend, std::int32_t>(
          *ctx_, untyped(x).data, detail::placed(x), [&](std::int64_t index) -> std::int32_t {
            if (index / length != row) row = index / length, window = text_->bytes.data() + begin_of(first + row);
            return static_cast<unsigned char>(window[index % length + ahead]);
          });
    };
    fill(out.tokens, 0);
    fill(out.targets, 1);
    return out;
  }

  context* ctx_;
  std::shared_ptr<const text_corpus> text_;
  std::int64_t split_ = 0;
};

}  // namespace weft
