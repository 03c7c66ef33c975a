// The bytes within a file that gzip wrote, by zlib, where it was found as this was built. Invariant: data that were cut
// off, or that their checksum doesn't fit, are an error before the file's end is told.
#pragma once

#include <algorithm>

#include <weft/io/file.hpp>

#ifdef WEFT_ZLIB
#include <zlib.h>
#endif

namespace weft_tokenize {

#ifdef WEFT_ZLIB
constexpr bool reads_gzip = true;

class gzip_reader {
 public:
  explicit gzip_reader(std::string path) : path_(std::move(path)), file_(weft::open_file(path_, "rb")) {
    if (::inflateInit2(&zlib_, 15 + 16) != Z_OK) throw std::bad_alloc();  // 16: gzip's header alone
  }
  ~gzip_reader() { ::inflateEnd(&zlib_); }
  gzip_reader(const gzip_reader&) = delete;
  gzip_reader& operator=(const gzip_reader&) = delete;

  /// Up to `n` bytes more; 0 at the end. `line`: of the first of them, for errors.
  std::size_t read(char* to, std::size_t n, long long line) {
    const auto now = [&] { return line + std::count(to, to + (n - zlib_.avail_out), '\n'); };
    zlib_.next_out = reinterpret_cast<Bytef*>(to), zlib_.avail_out = static_cast<uInt>(n);
    while (zlib_.avail_out > 0) {
      const bool more = zlib_.avail_in > 0 || fill();
      if (!more && between_ && begin_ > 0) break;
      if (more && between_ && parts_ > 0 && skip_zeros()) continue;  // to the end, as gzip passes them over
      if (!more) fail(now(), "its compressed data end too early; it was cut off: fetch or write it again");
      if (padded_)
        fail(now(), "behind its compressed data stand zeros, and then other bytes; it was changed, or written over a ",
             "longer file: fetch or write it again");
      if (std::exchange(between_, false)) ::inflateReset(&zlib_);  // several parts may lie one behind the other
      const int said = ::inflate(&zlib_, Z_NO_FLUSH);
      if (said == Z_MEM_ERROR) throw std::bad_alloc();
      if (said != Z_OK && said != Z_STREAM_END)
        fail(now(), "its compressed data aren't sound", zlib_.msg ? std::string(": ") + zlib_.msg : "",
             "; it was changed, or isn't gzip's: fetch or write it again");
      between_ = said == Z_STREAM_END, parts_ += between_;
    }
    return n - zlib_.avail_out;
  }

 private:
  bool fill() {
    begin_ += block_.size();
    block_.resize(std::size_t{1} << 18);
    errno = 0;
    block_.resize(std::fread(block_.data(), 1, block_.size(), file_.get()));
    const int why = errno;
    if (std::ferror(file_.get())) weft::detail::fail_of_file(path_, "read", why);
    zlib_.next_in = reinterpret_cast<Bytef*>(block_.data()), zlib_.avail_in = static_cast<uInt>(block_.size());
    return !block_.empty();
  }
  // Whether zeros stand here, which are the rest of this block; what may follow them is zeros.
  bool skip_zeros() {
    const std::size_t before = zlib_.avail_in;
    while (zlib_.avail_in > 0 && *zlib_.next_in == 0) ++zlib_.next_in, --zlib_.avail_in;
    padded_ = padded_ || zlib_.avail_in < before;
    return padded_ && zlib_.avail_in == 0;
  }
  template <class... Parts>
  [[noreturn]] void fail(long long line, const Parts&... parts) const {
    throw weft::file_error(weft::detail::text("the file ", path_, ", line ", line, ", byte ",
                                              begin_ + block_.size() - zlib_.avail_in,
                                              " of it as it lies there: ", parts...));
  }

  std::string path_;
  weft::owned_file file_;
  std::string block_;
  std::size_t begin_ = 0;  // of the block in the file
  bool between_ = true;    // no part has begun, or one has ended
  std::size_t parts_ = 0;  // that have ended
  bool padded_ = false;    // zeros stand behind the last
  z_stream zlib_{};
};
#else
constexpr bool reads_gzip = false;

class gzip_reader {
 public:
  explicit gzip_reader(const std::string&) {}
  std::size_t read(char*, std::size_t, long long) { return 0; }  // such a file was refused
};
#endif

}  // namespace weft_tokenize
