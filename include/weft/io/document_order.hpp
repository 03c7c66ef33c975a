// Documents of a part of a token stream, in an order of a key's own, or one by one as rows. Invariant: which token
// stands where is a function of (stream, part, key); each of the part's tokens stands in one place. Held is a sum for
// each 32 documents, never a token, nor an order.
#pragma once

#include <weft/io/random_permutation.hpp>
#include <weft/io/token_stream.hpp>

namespace weft::detail {

/// The documents of tokens [begin, end) of a stream; of those that lie across a border, the part within.
class documents_within {
 public:
  struct piece {
    std::int64_t begin, size;
  };

  documents_within(const token_stream& stream, std::int64_t begin, std::int64_t end)
      : stream_(&stream), begin_(begin), end_(end) {
    if (begin == end) return;
    first_ = stream.document_at(begin), count_ = stream.document_at(end - 1) - first_ + 1;
  }

  std::int64_t count() const { return count_; }
  piece operator[](std::int64_t i) const {
    const std::int64_t from = std::max(begin_, stream_->begin_of(first_ + i));
    return {from, std::min(end_, stream_->begin_of(first_ + i + 1)) - from};
  }
  const token_stream& stream() const { return *stream_; }
  recent_sums::key key(std::uint64_t a, std::uint64_t b, std::uint64_t c) const {
    return {a, b, c, static_cast<std::uint64_t>(begin_), static_cast<std::uint64_t>(end_)};
  }

 private:
  const token_stream* stream_;
  std::int64_t begin_, end_, first_ = 0, count_ = 0;
};

/// One behind the other in the order of a key. Places are from 0 to below the part's size, which isn't 0. The first to
/// ask for a key goes over all documents once.
class shuffled_documents {
 public:
  shuffled_documents(const token_stream& stream, std::int64_t begin, std::int64_t end, const philox& key)
      : documents_(stream, begin, end),
        order_(documents_.count(), key),
        sums_(stream.orders().get(documents_.key(0, key.seed, key.stream), [&] {
          return sparse_sums(documents_.count(), [&](std::int64_t i) { return piece(i).size; });
        })) {}

  /// Calls read(begin, count) for the places in the stream of `count` tokens from `place` on.
  template <class F>
  void each(std::int64_t place, std::int64_t count, F&& read) const {
    auto [i, offset] = sums_->find(place, [&](std::int64_t item) { return piece(item).size; });
    for (; count > 0; ++i, offset = 0) {
      const documents_within::piece p = piece(i);
      const std::int64_t n = std::min(count, p.size - offset);
      if (n > 0) read(p.begin + offset, n), count -= n;
    }
  }

 private:
  documents_within::piece piece(std::int64_t i) const { return documents_[order_(i)]; }

  documents_within documents_;
  random_permutation order_;
  std::shared_ptr<const sparse_sums> sums_;
};

/// Each document as rows of `length` tokens, each with the token after it: its last row may be shorter. A document of
/// one token makes none.
class document_rows {
 public:
  document_rows(const token_stream& stream, std::int64_t begin, std::int64_t end, std::int64_t length)
      : documents_(stream, begin, end),
        length_(length),
        sums_(stream.orders().get(documents_.key(1, static_cast<std::uint64_t>(length), 0), [&] {
          return sparse_sums(documents_.count(), [&](std::int64_t d) { return rows_of(d); });
        })) {}

  std::int64_t count() const { return sums_->total(); }
  /// Where a row begins, and how many tokens it has that have one after them.
  documents_within::piece operator[](std::int64_t row) const {
    const auto [d, n] = sums_->find(row, [&](std::int64_t item) { return rows_of(item); });
    const documents_within::piece p = documents_[d];
    return {p.begin + n * length_, std::min(length_, p.size - 1 - n * length_)};
  }

 private:
  std::int64_t rows_of(std::int64_t d) const {
    return (std::max<std::int64_t>(documents_[d].size, 1) + length_ - 2) / length_;
  }

  documents_within documents_;
  std::int64_t length_;
  std::shared_ptr<const sparse_sums> sums_;
};

}  // namespace weft::detail
