// Documents of tokens in files: Megatron's pair of .bin and .idx, and llm.c's .bin. Mapped: read as they are used.
// token_writer.hpp writes both.
// Invariant: every place that the index names lies in the file; tokens are not negative.
#pragma once

#include <memory>
#include <vector>

#include <weft/io/mapped_file.hpp>
#include <weft/io/token_writer.hpp>

namespace weft {

namespace detail {

template <class... Parts>
[[noreturn, gnu::cold]] void fail_of_tokens(const std::string& path, const Parts&... parts) {
  throw file_error(text("the file ", path, " is no sound file of tokens: ", parts...,
                        "; it was cut off or changed after it was written: fetch or write it again"));
}

/// A number of type T at byte `at`, little-endian, at any address.
template <class T>
T number_at(std::string_view bytes, std::uint64_t at) {
  T out;
  std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

}  // namespace detail

/// Sources: Megatron-LM, megatron/core/datasets/indexed_dataset.py; llm.c, dev/data/data_common.py.
class token_file {
 public:
  /// `path`: of llm.c's .bin, or of Megatron's .idx or .bin, each with the other beside it. Throws weft::file_error
  /// where a file can't be read, or isn't sound.
  explicit token_file(const std::string& path) {
    const std::string stem = path.ends_with(".idx") || path.ends_with(".bin") ? path.substr(0, path.size() - 4) : path;
    if (::access((stem + ".idx").c_str(), F_OK) == 0)
      open_megatron(stem);
    else
      open_llmc(path);
  }

  std::int64_t documents() const { return static_cast<std::int64_t>(first_.size()) - 1; }
  /// Of all documents.
  std::int64_t tokens() const { return begins_.back(); }
  /// Of documents before `document`.
  std::int64_t tokens_before(std::int64_t document) const { return begins_[at(first_[at(document)])]; }
  std::int64_t length(std::int64_t document) const { return tokens_before(document + 1) - tokens_before(document); }

  /// Appends tokens first ... first + count - 1 of a document to `out`. Throws weft::file_error where one isn't from 0
  /// to 2^31 - 1, and weft::failure where the document has fewer.
  void read(std::int64_t document, std::int64_t first, std::int64_t count, std::vector<std::int32_t>& out) const {
    require(first >= 0 && count >= 0 && first + count <= length(document), "document ", document, " of the file ",
            data_->path(), " has ", length(document), " tokens, not ", first + count);
    first += tokens_before(document);
    for (std::int64_t s = first_[at(document)]; count > 0; ++s) {
      const std::int64_t before = begins_[at(s)], n = std::min(count, begins_[at(s) + 1] - first);
      if (n <= 0) continue;
      for (std::int64_t i = first - before; i < first - before + n; ++i) out.push_back(token(places_[at(s)], i));
      first += n, count -= n;
    }
  }
  std::vector<std::int32_t> document(std::int64_t d) const {
    std::vector<std::int32_t> out;
    read(d, 0, length(d), out);
    return out;
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  std::int32_t token(std::uint64_t place, std::int64_t i) const {
    const std::uint64_t where = place + static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(bytes_);
    const std::string_view all = data_->bytes();
    std::int64_t t = 0;
    switch (bytes_) {
      case 1:
        t = detail::number_at<std::uint8_t>(all, where);
        break;
      case 2:
        t = is_signed_ ? std::int64_t{detail::number_at<std::int16_t>(all, where)}
                       : detail::number_at<std::uint16_t>(all, where);
        break;
      case 4:
        t = is_signed_ ? std::int64_t{detail::number_at<std::int32_t>(all, where)}
                       : detail::number_at<std::uint32_t>(all, where);
        break;
      default:
        t = detail::number_at<std::int64_t>(all, where);
    }
    if (bytes_ == 1 && is_signed_) t = static_cast<std::int8_t>(t);
    if (t < 0 || t > 0x7FFFFFFF)
      detail::fail_of_tokens(data_->path(), "the token at byte ", where, " is ", t, ", which isn't from 0 to 2^31 - 1");
    return static_cast<std::int32_t>(t);
  }

  void open_megatron(const std::string& stem) {
    const mapped_file index(stem + ".idx");
    data_ = std::make_unique<mapped_file>(stem + ".bin");
    const std::string_view all = index.bytes();
    const auto fail = [&](const auto&... parts) { detail::fail_of_tokens(index.path(), parts...); };
    constexpr std::uint64_t header = 34;
    if (all.size() < header || !all.starts_with(std::string_view("MMIDIDX\0\0", 9)))
      fail("it doesn't begin as one of Megatron's does, with MMIDIDX and 34 bytes");
    if (const auto version = detail::number_at<std::uint64_t>(all, 9); version != 1)
      fail("its version is ", version, ", not 1");
    const auto code = detail::number_at<std::uint8_t>(all, 17);
    const int sizes[] = {0, 1, 1, 2, 4, 8, 0, 0, 2};
    if (code > 8 || sizes[code] == 0) fail("its type has the number ", int{code}, ", which is none of whole numbers");
    bytes_ = sizes[code], is_signed_ = code >= 2 && code <= 5;
    const auto sequences = detail::number_at<std::uint64_t>(all, 18), ends = detail::number_at<std::uint64_t>(all, 26);
    const std::uint64_t rest = all.size() - header;
    if (sequences > rest / 12 || ends > rest / 8 || sequences * 12 + ends * 8 != rest)
      fail("it has ", all.size(), " bytes, which aren't those of ", sequences, " sequences and ", ends,
           " documents' ends");
    begins_.push_back(0);
    for (std::uint64_t s = 0; s < sequences; ++s) {
      const auto length = detail::number_at<std::int32_t>(all, header + 4 * s);
      const auto place = detail::number_at<std::int64_t>(all, header + 4 * sequences + 8 * s);
      const auto size = static_cast<std::int64_t>(data_->bytes().size());
      if (length < 0 || place < 0 || place > size || length > (size - place) / bytes_)
        fail("sequence ", s, " has ", length, " tokens from byte ", place, " on, and the file ", data_->path(), " has ",
             size, " bytes");
      places_.push_back(static_cast<std::uint64_t>(place));
      begins_.push_back(begins_.back() + length);
    }
    for (std::uint64_t d = 0; d < ends; ++d) {
      const auto end = detail::number_at<std::int64_t>(all, header + 12 * sequences + 8 * d);
      const std::int64_t before = first_.empty() ? 0 : first_.back();
      if (end < before || end > static_cast<std::int64_t>(sequences) || (d == 0 && end != 0))
        fail("document ", d, " ends at sequence ", end, ", where the one before ends at ", before, " of ", sequences);
      first_.push_back(end);
    }
    if (first_.empty() || first_.back() != static_cast<std::int64_t>(sequences))
      fail("its last document doesn't end with the last of its ", sequences, " sequences");
  }

  void open_llmc(const std::string& path) {
    data_ = std::make_unique<mapped_file>(path);
    const std::string_view all = data_->bytes();
    constexpr std::uint64_t header = 1024;
    const auto fail = [&](const auto&... parts) { detail::fail_of_tokens(path, parts...); };
    if (all.size() < header) fail("it has ", all.size(), " bytes, fewer than llm.c's header of 1024");
    const auto magic = detail::number_at<std::int32_t>(all, 0), version = detail::number_at<std::int32_t>(all, 4),
               count = detail::number_at<std::int32_t>(all, 8);
    const bool narrow = magic == 20240520 && version == 1;
    if (!narrow && !(magic == 20240801 && version == 7))
      fail("it begins with ", magic, " and ", version,
           ", where llm.c's files of tokens have 20240520 and 1, or 20240801 ",
           "and 7; Megatron's .bin is read with its .idx beside it");
    bytes_ = narrow ? 2 : 4;
    if (count < 0 || static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(bytes_) != all.size() - header)
      fail("it has ", all.size() - header, " bytes behind its header, which aren't those of ", count, " tokens");
    places_ = {header}, begins_ = {0, count}, first_ = {0, 1};
  }

  std::unique_ptr<mapped_file> data_;
  int bytes_ = 0;
  bool is_signed_ = false;
  std::vector<std::uint64_t> places_;  // of sequences, in bytes
  std::vector<std::int64_t> begins_;   // of sequences, in tokens of all before
  std::vector<std::int64_t> first_;    // sequence of each document, and behind the last
};

}  // namespace weft
