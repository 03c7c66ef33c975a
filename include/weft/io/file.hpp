// Files whole and line by line, with errors that name them. Invariant: a file that was opened is closed on every path.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include <weft/core/error.hpp>

namespace weft {

/// A file that can't be read or written.
class file_error : public failure {
 public:
  using failure::failure;
};

using owned_file = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

namespace detail {

/// Says why a file can't be `done`, by `why`, errno as the call that failed left it: the next call may change it.
[[noreturn, gnu::cold]] WEFT_LINKED void fail_of_file(const std::string& path, const char* done, int why) {
  const bool writing = std::string_view(done) == "written";
  const char* const cure = why == ENOSPC                     ? "; make space on its disk"
                           : why == EACCES || why == EROFS   ? "; check its permissions"
                           : why == EISDIR                   ? "; give a regular file"
                           : why == ENOENT && writing        ? "; make its folder first"
                           : why == ENOENT || why == ENOTDIR ? "; check the path"
                                                             : "";
  throw file_error(text("the file ", path, " can't be ", done, ": ", std::strerror(why), cure));
}

}  // namespace detail

/// Throws weft::failure naming the file and the system's reason.
WEFT_LINKED owned_file open_file(const std::string& path, const char* mode) {
  owned_file f(std::fopen(path.c_str(), mode), &std::fclose);
  const int why = errno;
  if (!f) detail::fail_of_file(path, *mode == 'r' ? "read" : "written", why);
  return f;
}

/// Appends to an open file, and waits until the system has it. Throws weft::failure, naming `path`, when it doesn't.
WEFT_LINKED void write_all(const owned_file& f, const std::string& path, std::string_view content) {
  const bool written =
      std::fwrite(content.data(), 1, content.size(), f.get()) == content.size() && std::fflush(f.get()) == 0;
  const int why = errno;
  if (!written) detail::fail_of_file(path, "written", why);
}

namespace detail {

/// Whether `write` wrote its file. One that the disk doesn't take is said on stderr, with what follows of it.
template <class F>
bool written(F&& write, const char* follows = "the run goes on without it") {
  try {
    write();
    return true;
  } catch (const file_error& e) {
    std::fprintf(stderr, "weft: %s; %s\n", e.what(), follows);
    return false;
  }
}

}  // namespace detail

/// All bytes of a file. Throws weft::failure when it can't be read, a folder for example, and when it has more bytes
/// than `most`: a device has no end.
WEFT_LINKED std::string read_file(const std::string& path, std::size_t most = std::size_t{1} << 48) {
  const owned_file f = open_file(path, "rb");
  std::string all;
  char part[1 << 14];
  std::size_t n = 0;
  int why = 0;
  do {
    n = std::fread(part, 1, sizeof part, f.get());
    why = errno;
    all.append(part, n);
    if (all.size() > most)
      throw file_error(detail::text("the file ", path, " has more than the ", most,
                                    " bytes that are read of such a file; check the path"));
  } while (n == sizeof part);
  if (std::ferror(f.get())) detail::fail_of_file(path, "read", why);
  return all;
}

/// Replaces a file's content. Throws weft::failure when the disk doesn't take it.
inline void write_file(const std::string& path, std::string_view content) {
  write_all(open_file(path, "wb"), path, content);
}

}  // namespace weft
