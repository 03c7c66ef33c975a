// One run of a cuDNN plan: where a graph's tensors lie, and what is done with them once it is the stream's turn.
// Invariant: tensors lie in device memory, apart from each other where they are written, and what is read was written.
#pragma once

#include "cudnn_graph.hpp"

namespace device::dnn {

inline constexpr std::int64_t used_workspace = 1 << 16;

struct job {
  std::shared_ptr<const graph> of;
  std::map<std::int64_t, std::uint8_t*> at{};  // of tensors in memory
  std::map<std::int64_t, numbers> values{};    // of those by value
  std::uint8_t* workspace = nullptr;
  std::uint64_t drawn = 0;

  void run() const;

  bool is_written(const tensor& t) const;
  bool fault(const tensor& t, const char* sentence) const;
  bool there(const tensor& t, const std::uint8_t* from) const;
};
/// Of a plan and a pack. Throws std::string, which says why, for a pack that isn't this plan's.
job job_of(const descriptor& plan, const descriptor& pack);

}  // namespace device::dnn
