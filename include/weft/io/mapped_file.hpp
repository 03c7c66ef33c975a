// A file's bytes, mapped: read as they are used, and shared by all ranks of a machine. For systems with POSIX.
// Invariant: the bytes are there until the object ends; the file has to stay as long as it is when it is opened.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include <weft/io/file.hpp>

namespace weft {

/// The bytes of a regular file. Throws weft::file_error, naming the file and the system's reason.
class mapped_file {
 public:
  explicit mapped_file(std::string path) : path_(std::move(path)) {
    const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) detail::fail_of_file(path_, "read", errno);
    struct stat is {};
    const bool known = ::fstat(file, &is) == 0;
    int why = known ? S_ISDIR(is.st_mode) ? EISDIR : S_ISREG(is.st_mode) ? 0 : EINVAL : errno;
    if (why == 0 && is.st_size > 0) {
      void* const at = ::mmap(nullptr, static_cast<std::size_t>(is.st_size), PROT_READ, MAP_SHARED, file, 0);
      if (at == MAP_FAILED)
        why = errno;
      else
        bytes_ = {static_cast<const char*>(at), static_cast<std::size_t>(is.st_size)};
    }
    ::close(file);
    if (why != 0) detail::fail_of_file(path_, "read", why);
  }
  ~mapped_file() {
    if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  mapped_file(mapped_file&& other) noexcept
      : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, std::string_view())) {}
  mapped_file& operator=(mapped_file&&) = delete;

  const std::string& path() const { return path_; }
  std::string_view bytes() const { return bytes_; }

 private:
  std::string path_;
  std::string_view bytes_;
};

}  // namespace weft
