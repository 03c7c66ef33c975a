// A file of JSON lines. Invariant: each line is complete and on the disk's side before the next one begins.
#pragma once

#include <weft/io/file.hpp>

namespace weft {

class json_lines {
 public:
  /// Throws when `folder`/`name` can't be written.
  json_lines(const std::string& folder, const char* name) : name_(name), file_(open_file(folder + '/' + name, "wb")) {}

  void write(const std::string& json) {
    const std::string line = json + '\n';
    require(std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() && std::fflush(file_.get()) == 0,
            name_, " can't be written: ", std::strerror(errno), "; check the space left on the disk");
  }

 private:
  const char* name_;
  file_handle file_;
};

}  // namespace weft
