// Where an arena's chunks come from: the host, a device or a place of one's own. Invariant: what a source gave is
// released by the same source.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <weft/core/requirements.hpp>

namespace weft {

/// Memory of one's own that the host can address: a file's, say (io/file_memory.hpp). It lives as long as what it gave.
/// Where several ranks are given one, its functions are called by several threads at once.
class memory_place {
 public:
  virtual ~memory_place() = default;
  /// At least so many bytes, aligned to 4096; null where there is no more.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* chunk) noexcept = 0;
};

namespace detail {
// The host's; null where there is no more. Not std::aligned_alloc, which Windows lacks. By a name, which compilers
// whose objects make one program give alike: whether a source is the host's is told by this address.
inline void* chunk_of_host(std::size_t bytes) {
  void* const chunk = ::operator new (bytes, std::align_val_t{4096}, std::nothrow);
#ifdef __linux__
  if (chunk && bytes >= (std::size_t{4} << 20)) ::madvise(chunk, bytes, MADV_HUGEPAGE);
#endif
  return chunk;
}
}  // namespace detail

/// Where an arena's chunks come from: the host by default, a device for a device backend, or a place.
struct memory_source {
  void* (*allocate)(std::size_t bytes) = detail::chunk_of_host;
  void (*release)(void* chunk) = [](void* chunk) { ::operator delete (chunk, std::align_val_t{4096}); };
  std::shared_ptr<memory_place> place = {};  // in place of the two, if there is one
  std::size_t granularity = 4096;            // chunks are multiples of so many bytes, which the system gives at least
};

}  // namespace weft
