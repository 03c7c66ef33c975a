// What an operation of the tests' NCCL reads of its ranks, and what it gives them.
#include "nccl_operation.hpp"

#include <algorithm>
#include <cstring>

namespace device::nccl {

std::size_t bytes_read(const nccl_call& c, int rank, int ranks) {
  return c.word == nccl_word::broadcast && rank != c.peer ? 0 : c.reads(c.pairs() ? 1 : ranks);
}
bool may_move(const nccl_call& c, int rank, int device, int ranks) {
  machine& gpu = the_device().gpu;
  const std::size_t reads = bytes_read(c, rank, ranks), writes = c.writes(c.pairs() ? 1 : ranks);
  if (reads > 0 && !require_inside(device, c.in, reads, c.name())) return false;
  if (writes > 0 && !require_inside(device, c.out, writes, c.name())) return false;
  if (reads == 0 || gpu.has_padding() || gpu.all_written(c.in, reads)) return true;
  gpu.find_fault(std::string(c.name()) + ": it reads what nobody wrote");
  return false;
}
void put(void* to, const std::vector<std::byte>& data) {
  if (data.empty()) return;
  std::memcpy(to, data.data(), data.size());
  the_device().gpu.mark_written(to, data.size());
}
std::vector<std::vector<std::byte>> outputs(const meeting& m) {
  const int ranks = static_cast<int>(m.members.size());
  // All is read before anything is written: outputs may be inputs.
  const nccl_call& first = m.members[0]->call;
  const std::size_t bytes = first.bytes();
  const auto in = [&](int r) { return static_cast<const std::byte*>(m.members[static_cast<std::size_t>(r)]->call.in); };
  std::vector<std::vector<std::byte>> outs;
  const auto part = [&](const std::byte* from, std::size_t size) { return std::vector<std::byte>(from, from + size); };
  const auto fold = [&](std::size_t at) {
    std::vector<const std::byte*> all;
    for (int r = 0; r < ranks; ++r) all.push_back(in(r) + at);
    std::vector<std::byte> out(bytes);
    nccl_fold(all, m.drawn % static_cast<std::uint64_t>(ranks), out.data(), first.count, first.type, first.how);
    return out;
  };
  std::vector<std::byte> all;
  switch (first.word) {
    case nccl_word::all_reduce:
      outs.assign(m.members.size(), fold(0));
      break;
    case nccl_word::reduce_scatter:
      for (int r = 0; r < ranks; ++r) outs.push_back(fold(static_cast<std::size_t>(r) * bytes));
      break;
    case nccl_word::all_gather:
      for (int r = 0; r < ranks; ++r) all.insert(all.end(), in(r), in(r) + bytes);
      outs.assign(m.members.size(), all);
      break;
    case nccl_word::broadcast:
      outs.assign(m.members.size(), part(in(first.peer), bytes));
      break;
    case nccl_word::send:
    case nccl_word::receive:
      outs = {{}, part(in(0), bytes)};
      break;
  }
  return outs;
}
std::string mixture(int a, int b, const nccl_call& call) {
  return std::string(call.name()) + " is given registered memory by one of the ranks " +
         std::to_string(std::min(a, b)) + " and " + std::to_string(std::max(a, b)) +
         ", and other memory by the other, which NCCL leaves undefined";
}
std::string disagreement(int a, const nccl_call& first, int b, const nccl_call& second) {
  return "ranks of one communicator disagree: rank " + std::to_string(a) + " calls " + first.text() + ", and rank " +
         std::to_string(b) + " " + second.text();
}

}  // namespace device::nccl
