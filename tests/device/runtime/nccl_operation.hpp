// One operation of the tests' NCCL and the data that it moves, whether its ranks are threads or processes. Invariant:
// nothing is read that isn't the device's or that nobody wrote, and all is read before anything is written.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nccl_data.hpp"

namespace device::nccl {

// One operation: of all ranks, or of a sender and a receiver.
struct meeting {
  struct member {
    int rank = 0, device = 0;
    nccl_call call;
    std::uint64_t number = 0;  // of its piece in its stream
    std::uint64_t given = 0;   // how many groups of calls its device was given before
  };
  std::vector<std::optional<member>> members;
  std::uint64_t drawn = 0;
  bool stuck = false;  // it never ends: NCCL failed, or a rank's communicator was aborted
  bool done = false;

  bool complete() const {
    for (const auto& m : members)
      if (!m) return false;
    return true;
  }
};
using met = std::shared_ptr<meeting>;

// How much of its input a rank's call reads, in a communicator of so many.
std::size_t bytes_read(const nccl_call& c, int rank, int ranks);
// Whether a rank's arrays are the device's, and what it reads was written.
bool may_move(const nccl_call& c, int rank, int device, int ranks);
// What each rank gets.
std::vector<std::vector<std::byte>> outputs(const meeting& m);
void put(void* to, const std::vector<std::byte>& data);
std::string mixture(int a, int b, const nccl_call& call);
std::string disagreement(int a, const nccl_call& first, int b, const nccl_call& second);

}  // namespace device::nccl
