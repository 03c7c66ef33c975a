// A file of JSON lines. Invariant: each line is complete and on the disk's side before the next one begins.
#pragma once

#include <weft/io/file.hpp>

namespace weft {

class json_lines {
 public:
  /// Throws when `folder`/`name` can't be written.
  json_lines(const std::string& folder, const char* name) : path_(folder + '/' + name), file_(open_file(path_, "wb")) {}

  /// Throws weft::failure that names the file when the disk doesn't take the line.
  void write(const std::string& json) { write_all(file_, path_, json + '\n'); }

 private:
  std::string path_;
  owned_file file_;
};

}  // namespace weft
