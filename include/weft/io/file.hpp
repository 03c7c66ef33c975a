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

using file_handle = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

/// Throws weft::error naming the file and the system's reason.
inline file_handle open_file(const std::string& path, const char* mode) {
  file_handle f(std::fopen(path.c_str(), mode), &std::fclose);
  const char* reason = std::strerror(errno);
  require(f != nullptr, "the file ", path, " can't be ", *mode == 'r' ? "read" : "written", ": ", reason,
          "; check the path and its permissions");
  return f;
}

/// All bytes of a file. Throws weft::error when it can't be read, a folder for example.
inline std::string read_file(const std::string& path) {
  const file_handle f = open_file(path, "rb");
  std::string all;
  char part[1 << 14];
  while (const std::size_t n = std::fread(part, 1, sizeof part, f.get())) all.append(part, n);
  if (std::ferror(f.get())) fail("the file ", path, " can't be read: ", std::strerror(errno), "; give a regular file");
  return all;
}

/// Replaces a file's content. Throws weft::error when the disk doesn't take it.
inline void write_file(const std::string& path, std::string_view content) {
  const file_handle f = open_file(path, "wb");
  const bool written =
      std::fwrite(content.data(), 1, content.size(), f.get()) == content.size() && std::fflush(f.get()) == 0;
  require(written, "the file ", path, " can't be written whole: ", std::strerror(errno),
          "; check the space left on the disk");
}

}  // namespace weft
