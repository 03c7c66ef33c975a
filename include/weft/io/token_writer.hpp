// Writing documents of tokens: Megatron's pair of .bin and .idx, and llm.c's .bin. Invariant: a file has its name once
// it is whole, and until then `.unfinished` behind it, written to by one program alone; memory doesn't grow with what
// is written.
#pragma once

#include <sys/file.h>

#include <cstdint>
#include <limits>
#include <vector>

#include <weft/io/output_file.hpp>

namespace weft {

namespace detail {

/// A file that is written from its beginning to its end, and then once more in its header.
class growing_file {
 public:
  explicit growing_file(std::string path) : path_(std::move(path)), file_(open_alone(path_)) {}
  ~growing_file() {
    if (file_) std::remove(unfinished(path_).c_str());  // while it is still locked
  }
  growing_file(growing_file&&) noexcept = default;
  growing_file& operator=(growing_file&&) = delete;

  void put(std::string_view bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fail("written");
  }
  /// Little-endian.
  template <class T>
  void put_number(T number) {
    char bytes[sizeof number];
    for (std::size_t i = 0; i < sizeof number; ++i)
      bytes[i] = static_cast<char>(static_cast<std::uint64_t>(number) >> 8 * i);
    put({bytes, sizeof number});
  }
  void go_to(std::int64_t place) {
    if (::fseeko(file_.get(), static_cast<off_t>(place), SEEK_SET) != 0) fail("written");
  }
  void go_to_end() {
    if (::fseeko(file_.get(), 0, SEEK_END) != 0) fail("written");
  }
  /// Reads from where it stands.
  void get(char* to, std::size_t n) {
    if (std::fread(to, 1, n, file_.get()) != n) fail("read");
  }
  /// Waits until the disk has all.
  void sync() {
    if (std::fflush(file_.get()) != 0 || ::fsync(::fileno(file_.get())) != 0) fail("written");
  }
  /// Gives it its name.
  void finish() {
    if (std::rename(unfinished(path_).c_str(), path_.c_str()) != 0) fail_of_file(path_, "written", errno);
    file_.reset();
    sync_folder_of(path_);
  }
  const std::string& path() const { return path_; }

 private:
  // Locked before it is emptied: what another program writes there stays its own. What a program left that was killed
  // is locked by none.
  static owned_file open_alone(const std::string& path) {
    const std::string name = unfinished(path);
    struct stat is {};
    if (::stat(path.c_str(), &is) == 0 && S_ISDIR(is.st_mode)) fail_of_file(path, "written", EISDIR);
    while (true) {
      const int file = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
      if (file < 0) fail_of_file(name, "written", errno);
      owned_file out(::fdopen(file, "r+b"), &std::fclose);
      if (!out) {
        const int why = errno;
        ::close(file);
        fail_of_file(name, "written", why);
      }
      // A file system without locks is written to without one.
      if (::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        throw file_error(text("the file ", path, " can't be written: another program is writing it; wait for its end, ",
                              "or give another name"));
      struct stat named {};
      if (::fstat(file, &is) != 0) fail_of_file(name, "written", errno);
      if (::stat(name.c_str(), &named) != 0 || named.st_ino != is.st_ino || named.st_dev != is.st_dev)
        continue;  // it was finished, or removed, between the opening and the lock
      if (::ftruncate(file, 0) != 0) fail_of_file(name, "written", errno);
      return out;
    }
  }
  [[noreturn]] void fail(const char* done) const { fail_of_file(unfinished(path_), done, errno); }

  std::string path_;
  owned_file file_;
};

inline void require_tokens(const std::vector<std::int32_t>& document, std::int64_t vocab) {
  for (const std::int32_t t : document) require(t >= 0 && t < vocab, "token ", t, " isn't of a vocabulary of ", vocab);
}
inline void put_tokens(growing_file& to, const std::vector<std::int32_t>& document, bool narrow) {
  std::string bytes;
  bytes.reserve(document.size() * (narrow ? 2 : 4));
  for (const std::int32_t t : document)
    for (int i = 0; i < (narrow ? 2 : 4); ++i) bytes += static_cast<char>(t >> 8 * i);
  to.put(bytes);
}

/// How many tokens an llm.c file has with so many more, which its header says in 32 bits.
inline std::int64_t llmc_tokens(const std::string& path, std::int64_t tokens, std::size_t more) {
  constexpr std::int64_t most = 0x7FFFFFFF;
  require(more <= static_cast<std::size_t>(most - tokens), "llm.c's file ", path,
          " holds at most 2^31 - 1 tokens; write several, or Megatron's pair");
  return tokens + static_cast<std::int64_t>(more);
}

}  // namespace detail

/// Writes Megatron's pair, document by document.
class token_writer {
 public:
  /// stem: of both files' paths. vocab: tokens are below it; where it is below 65500 a token takes two bytes, as
  /// Megatron chooses, and else four.
  token_writer(const std::string& stem, std::int64_t vocab)
      : vocab_(vocab), narrow_(vocab < 65500), data_(stem + ".bin"), index_(stem + ".idx") {
    require(vocab >= 1 && vocab <= 0x7FFFFFFF, "a vocabulary of ", vocab, " tokens; it has from 1 to 2^31 - 1");
    index_.put(std::string(header, '\0'));
  }

  /// Throws weft::failure where a token isn't below the vocabulary's size, or a document has 2^31 tokens or more, and
  /// when the disk doesn't take it.
  void add(const std::vector<std::int32_t>& document) {
    detail::require_tokens(document, vocab_);
    require(document.size() <= 0x7FFFFFFF, "a document of ", document.size(), " tokens; it has at most 2^31 - 1");
    detail::put_tokens(data_, document, narrow_);
    index_.put_number(static_cast<std::int32_t>(document.size()));  // lengths first, and what follows from them behind
    ++documents_;
  }
  /// Writes the rest of the index, and gives both files their names. Once, when all are added.
  void finish() { prepare(), publish(); }
  /// The first half of finish(): all is written, and on the disk, and what had the names has them still.
  void prepare() {
    std::int64_t place = 0;
    for (std::int64_t d = 0; d < documents_; d += most) {
      const std::int64_t n = std::min(most, documents_ - d);
      std::vector<char> lengths(static_cast<std::size_t>(4 * n));
      index_.go_to(header + 4 * d);
      index_.get(lengths.data(), lengths.size());
      index_.go_to_end();
      for (std::int64_t i = 0; i < n; ++i) {
        std::int32_t length = 0;
        std::memcpy(&length, lengths.data() + 4 * i, 4);
        index_.put_number(std::exchange(place, place + std::int64_t{length} * (narrow_ ? 2 : 4)));
      }
    }
    index_.go_to_end();
    for (std::int64_t d = 0; d <= documents_; ++d) index_.put_number(d);
    index_.go_to(0);
    index_.put(std::string_view("MMIDIDX\0\0", 9));
    index_.put_number(std::uint64_t{1});
    index_.put_number(static_cast<std::uint8_t>(narrow_ ? 8 : 4));
    index_.put_number(documents_);
    index_.put_number(documents_ + 1);
    data_.sync(), index_.sync();
  }
  /// The second half: gives both files their names.
  void publish() {
    std::remove(index_.path().c_str());  // an earlier one's isn't left beside other tokens
    data_.finish(), index_.finish();
  }

 private:
  static constexpr std::int64_t header = 34, most = 1 << 16;

  std::int64_t vocab_;
  bool narrow_;
  detail::growing_file data_, index_;
  std::int64_t documents_ = 0;
};

/// Writes llm.c's .bin, in which documents have no borders but the tokens that end them. Source: llm.c,
/// dev/data/data_common.py, write_datafile.
class llmc_writer {
 public:
  /// vocab: tokens are below it; up to 65536 a token takes two bytes, as of llm.c's GPT-2, and else four, as of its
  /// Llama 3.
  llmc_writer(const std::string& path, std::int64_t vocab) : vocab_(vocab), narrow_(vocab <= 65536), data_(path) {
    require(vocab >= 1 && vocab <= 0x7FFFFFFF, "a vocabulary of ", vocab, " tokens; it has from 1 to 2^31 - 1");
    data_.put(std::string(1024, '\0'));
  }

  /// Throws weft::failure where a token isn't below the vocabulary's size, when the file would have 2^31 tokens, and
  /// when the disk doesn't take it.
  void add(const std::vector<std::int32_t>& document) {
    detail::require_tokens(document, vocab_);
    const std::int64_t all = detail::llmc_tokens(data_.path(), tokens_, document.size());
    detail::put_tokens(data_, document, narrow_);
    tokens_ = all;
  }
  /// Writes the header, and gives the file its name. Once, when all are added.
  void finish() { prepare(), publish(); }
  /// The first half of finish(): all is written, and on the disk, and what had the name has it still.
  void prepare() {
    data_.go_to(0);
    data_.put_number(narrow_ ? 20240520 : 20240801);
    data_.put_number(narrow_ ? 1 : 7);
    data_.put_number(static_cast<std::int32_t>(tokens_));
    data_.sync();
  }
  /// The second half: gives the file its name.
  void publish() { data_.finish(); }

 private:
  std::int64_t vocab_;
  bool narrow_;
  detail::growing_file data_;
  std::int64_t tokens_ = 0;
};

}  // namespace weft
