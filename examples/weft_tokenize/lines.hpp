// A file's lines, one at a time, and its documents as they stand in it. Invariant: of the file no more is in memory
// than one document and a block.
#pragma once

#include <filesystem>
#include <optional>

#include <weft/io/file.hpp>
#include <weft/io/json.hpp>

#include "gzip.hpp"

namespace weft_tokenize {

/// What a file's name ends with, in small letters: ".jsonl".
inline std::string ending_of(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return ending;
}

class line_reader {
 public:
  explicit line_reader(std::string path) : path_(std::move(path)) {
    if (ending_of(path_) == ".gz")
      packed_.emplace(path_);
    else
      file_ = weft::open_file(path_, "rb");
  }

  /// Sets `line` to the next line, with its end, "\n", where it has one. False where there is none.
  bool next(std::string& line) {
    line.clear();
    while (true) {
      if (at_ == block_.size() && !fill()) break;
      const std::size_t end = block_.find('\n', at_), n = (end == block_.npos ? block_.size() : end + 1) - at_;
      line.append(block_, at_, n);
      at_ += n;
      if (line.size() > most)
        throw weft::file_error(weft::detail::text("the file ", path_, ", line ", number_ + 1, ": it has more than ",
                                                  most, " bytes, and no line may be longer"));
      if (end != block_.npos) break;
    }
    number_ += !line.empty();
    return !line.empty();
  }
  /// Of the line that was read last, from 1.
  long long number() const { return number_; }
  const std::string& path() const { return path_; }

 private:
  static constexpr std::size_t most = std::size_t{1} << 28;

  bool fill() {
    block_.resize(std::size_t{1} << 20), at_ = 0;
    if (packed_) {
      block_.resize(packed_->read(block_.data(), block_.size(), number_ + 1));
      return !block_.empty();
    }
    errno = 0;
    block_.resize(std::fread(block_.data(), 1, block_.size(), file_.get()));
    const int why = errno;
    if (std::ferror(file_.get())) weft::detail::fail_of_file(path_, "read", why);
    return !block_.empty();
  }

  std::string path_;
  std::optional<gzip_reader> packed_;  // one of the two
  weft::owned_file file_{nullptr, &std::fclose};
  std::string block_;
  std::size_t at_ = 0;
  long long number_ = 0;
};

/// A document as it stands in its file.
struct raw_document {
  std::string path;
  long long line = 0;  // where it begins, from 1
  std::string bytes;
  bool json = false;
};

/// A line without its end.
inline void cut_end(std::string& line) {
  if (line.ends_with('\n')) line.pop_back();
  if (line.ends_with('\r')) line.pop_back();
}

/// Throws weft::file_error naming line and column where a text isn't UTF-8. Takes a byte-order mark away.
inline void check_utf8(raw_document& d) {
  if (d.line == 1 && d.bytes.starts_with("\xEF\xBB\xBF")) d.bytes.erase(0, 3);
  const std::string_view all = d.bytes;
  long long line = d.line;
  for (std::size_t at = 0, begin = 0; at < all.size();) {
    const std::size_t n = weft::detail::utf8_length(all.substr(at, 4));
    if (n == 0)
      throw weft::file_error(weft::detail::text("the file ", d.path, ", line ", line, ": its byte ", at - begin + 1,
                                                " is no UTF-8; convert it, with iconv for example"));
    if (all[at] == '\n') ++line, begin = at + 1;
    at += n;
  }
}

}  // namespace weft_tokenize
