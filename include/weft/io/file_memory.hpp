// Memory in a file without a name: for an optimizer's state that is larger than the host's memory. For systems with
// POSIX. Invariant: the disk's space is taken when memory is asked for, so no later write finds it full.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <weft/core/error.hpp>
#include <weft/memory/source.hpp>

namespace weft {

namespace detail {

class file_place final : public memory_place {
 public:
  explicit file_place(std::string folder) : folder_(std::move(folder)) {
    require(!folder_.empty(),
            "file_memory was given a folder without a name; \".\" is the one that the program runs in");
    std::string name = folder_ + "/weft-memory-XXXXXX";
    file_ = ::mkstemp(name.data());
    require(file_ >= 0, "no file for memory can be made in the folder ", folder_, ": ", std::strerror(errno),
            "; name a folder that exists and can be written to");
    ::unlink(name.c_str());  // its space is given back when the last of it is released, however the program ends
  }
  ~file_place() override {
    for (const auto& [chunk, bytes] : chunks_) ::munmap(chunk, bytes);
    ::close(file_);
  }
  file_place(const file_place&) = delete;
  file_place& operator=(const file_place&) = delete;

  void* allocate(std::size_t bytes) override {
    const std::lock_guard guard(lock_);
    const int full = ::posix_fallocate(file_, static_cast<off_t>(size_), static_cast<off_t>(bytes));
    require(full == 0, "the file for memory in the folder ", folder_, " can't grow from ", size_ >> 20, " MiB by ",
            bytes >> 20, " MiB: ", std::strerror(full), "; make space on its disk, or name a folder on another");
    void* const chunk = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, static_cast<off_t>(size_));
    if (chunk == MAP_FAILED) return nullptr;
    size_ += bytes;
    chunks_[chunk] = bytes;
    return chunk;
  }
  void release(void* chunk) noexcept override {
    const std::lock_guard guard(lock_);
    const auto at = chunks_.find(chunk);
    if (at == chunks_.end()) return;
    ::munmap(chunk, at->second);
    chunks_.erase(at);
  }

 private:
  std::string folder_;
  std::mutex lock_;  // ranks that were given one source ask at once
  int file_ = -1;
  std::size_t size_ = 0;
  std::map<void*, std::size_t> chunks_;
};

}  // namespace detail

/// Memory in a file of this folder: ctx.keep_optimizer_state_in(file_memory("/fast/disk")). The system keeps in memory
/// what is used, and writes the rest to the disk. The file has no name, and is gone when the program ends. Ranks may
/// share one, made before launch, or have one each. Throws weft::failure where none can be made in the folder, and
/// where its disk is full when memory is asked for.
inline memory_source file_memory(const std::string& folder) {
  memory_source out;
  out.place = std::make_shared<detail::file_place>(folder);
  return out;
}

}  // namespace weft
