// A file that several ranks write at once, and that is there whole or not at all. For systems with POSIX.
// Invariant: under its own name there is never a part of it; the disk's space is taken before the first byte is
// written.
#pragma once

#include <sys/file.h>

#include <filesystem>
#include <vector>

#include <weft/io/mapped_file.hpp>

namespace weft::detail {

/// What it is called while it is written.
inline std::string unfinished(const std::string& path) { return path + ".unfinished"; }

/// Makes a folder where it isn't there, and those that it lies in.
inline void make_folder(const std::string& path) {
  std::error_code why;
  std::filesystem::create_directories(path, why);
  if (why) fail_of_file(path, "written", why.value());
}

/// What lies in a folder. Throws weft::file_error naming it, where it can't be read.
inline std::vector<std::filesystem::path> entries_of(const std::string& folder) {
  std::vector<std::filesystem::path> out;
  std::error_code why;
  std::filesystem::directory_iterator entry(folder, why);
  for (; !why && entry != std::filesystem::directory_iterator(); entry.increment(why)) out.push_back(entry->path());
  if (why) fail_of_file(folder, "read", why.value());
  return out;
}

/// An open file, by number.
class descriptor {
 public:
  descriptor(const std::string& path, int flags, const char* done)
      : file_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (file_ < 0) fail_of_file(path, done, errno);
  }
  ~descriptor() { ::close(file_); }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  operator int() const { return file_; }

 private:
  int file_;
};

/// Writes all of the bytes at `offset` of a file that is open.
inline void write_at(int file, const std::string& name, std::string_view bytes, std::size_t offset) {
  for (std::size_t done = 0; done < bytes.size();) {
    const auto n = ::pwrite(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_of_file(name, "written", errno);
    done += static_cast<std::size_t>(n);
  }
}

/// Makes the unfinished file, with these bytes at its beginning and so many in all. By one rank.
inline void begin_output(const std::string& path, std::string_view beginning, std::uint64_t size) {
  const std::string name = unfinished(path);
  const descriptor file(name, O_RDWR | O_CREAT | O_TRUNC, "written");
  if (const int why = ::posix_fallocate(file, 0, static_cast<off_t>(std::max<std::uint64_t>(size, 1))); why != 0)
    fail_of_file(name, "written", why);
  if (size == 0 && ::ftruncate(file, 0) != 0) fail_of_file(name, "written", errno);
  write_at(file, name, beginning, 0);
}

/// The bytes of an unfinished file, to be written to. By any rank.
class output_bytes {
 public:
  explicit output_bytes(const std::string& path) : name_(unfinished(path)), file_(name_, O_RDWR, "written") {
    ::flock(file_, LOCK_SH | LOCK_NB);  // told by is_being_written(); where files can't be locked, nothing is
    struct stat is {};
    if (::fstat(file_, &is) != 0) fail_of_file(name_, "written", errno);
    size_ = static_cast<std::size_t>(is.st_size);
    if (size_ == 0) return;
    void* const at = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (at == MAP_FAILED) fail_of_file(name_, "written", errno);
    data_ = static_cast<char*>(at);
  }
  ~output_bytes() {
    if (data_) ::munmap(data_, size_);
  }
  output_bytes(const output_bytes&) = delete;
  output_bytes& operator=(const output_bytes&) = delete;

  char* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// The same as bytes that are copied to data() + offset; for many at once it takes less time.
  void write(std::size_t offset, std::string_view bytes) const { write_at(file_, name_, bytes, offset); }
  /// Waits until the disk has what this rank wrote.
  void sync() {
    if ((data_ && ::msync(data_, size_, MS_SYNC) != 0) || ::fsync(file_) != 0) fail_of_file(name_, "written", errno);
  }

 private:
  std::string name_;
  descriptor file_;
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Whether somebody has the unfinished file's bytes yet, and it isn't what a run left that died.
inline bool is_being_written(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::exists(unfinished(path), none)) return false;
  const descriptor file(unfinished(path), O_RDONLY, "read");
  return ::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/// Writes the unfinished file whole. By one rank.
inline void write_unfinished(const std::string& path, const std::string& text) {
  begin_output(path, text, text.size());
  output_bytes(path).sync();
}

/// Waits until a folder's names are on the disk.
inline void sync_folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const descriptor names(folder, O_RDONLY | O_DIRECTORY, "written");
  if (::fsync(names) != 0) fail_of_file(folder, "written", errno);
}

/// Gives the file its name, in place of what had it. By one rank, when all have synced.
inline void finish_output(const std::string& path) {
  if (std::rename(unfinished(path).c_str(), path.c_str()) != 0) fail_of_file(path, "written", errno);
  sync_folder_of(path);
}

}  // namespace weft::detail
