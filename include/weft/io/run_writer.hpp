// Runs of bytes that go to files. Invariant: neighbours are joined, and what is long is written by the system at once:
// a mapped file's pages would each be fetched and cleared before.
#pragma once

#include <memory>

#include <weft/io/output_file.hpp>

namespace weft::detail {

class run_writer {
 public:
  static constexpr std::size_t most = std::size_t{1} << 18;  // bytes of one run

  run_writer() : bytes_(new char[most]) {}

  /// Where the caller writes `size` bytes, at most `most`, that belong at `offset` of the file; until the next call.
  char* next(const output_bytes& file, std::size_t offset, std::size_t size) {
    if (&file != file_ || offset != first_ + size_ || size_ + size > most) {
      finish();
      file_ = &file, first_ = offset;
    }
    return bytes_.get() + std::exchange(size_, size_ + size);
  }
  /// The files have everything. Throws weft::file_error, naming the file and the system's reason.
  void finish() {
    constexpr std::size_t long_enough = std::size_t{1} << 16;
    const std::size_t size = std::exchange(size_, 0);
    if (size >= long_enough)
      file_->write(first_, {bytes_.get(), size});
    else if (size > 0)
      std::memcpy(file_->data() + first_, bytes_.get(), size);
  }

 private:
  std::unique_ptr<char[]> bytes_;
  const output_bytes* file_ = nullptr;
  std::size_t first_ = 0, size_ = 0;
};

}  // namespace weft::detail
