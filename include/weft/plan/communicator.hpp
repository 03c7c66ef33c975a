// The communicator of a plan: it says that it is one rank of many, and sends nothing. Invariant: every operation is
// complete when it returns; of host memory, what other ranks would have sent is what this one has.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <weft/comm/concept.hpp>
#include <weft/plan/backend.hpp>
#include <weft/plan/report.hpp>

namespace weft {

/// A group of ranks of which only this one exists. Satisfies `communicator`. Tensors at a plan's addresses are left
/// alone. In the host's memory a reduction gives this rank's numbers, and ones where it has nothing but zeros to add to
/// a sum of double (a stage without the loss: another has it); a gather gives them once a rank.
class planned_group : public comm_operations<planned_group> {
 public:
  /// `groups`: this rank's place in every group that split may ask for, by name.
  planned_group(int rank, int size, std::vector<planned_place> groups)
      : rank_(rank), size_(size), groups_(std::make_shared<const std::vector<planned_place>>(std::move(groups))) {}

  int rank() const { return rank_; }
  int size() const { return size_; }

  request post(const comm_call& call) {
    switch (call.operation) {
      case comm_operation::all_reduce:
        reduce(call);
        break;
      case comm_operation::all_gather:
        for (int r = 0; r < size_; ++r) move(call.in, part(call.out, r * call.count), call.count);
        break;
      case comm_operation::reduce_scatter:
        move(part(call.in, rank_ * call.bytes()), call.out, call.bytes());
        break;
      case comm_operation::all_to_all:
        move(call.in, call.out, size_ * call.count);
        break;
      case comm_operation::all_to_allv:
      case comm_operation::recv:
        clear(call.out, call.output_bytes(size_));
        break;
      default:
        break;
    }
    return {};
  }

  /// Throws weft::failure for a name that this rank's groups don't have: how many ranks would call it is unknown.
  planned_group split(int, int, const char* name) {
    for (const planned_place& g : *groups_)
      if (g.name == name) return planned_group(groups_, g.rank, g.size);
    fail("a planned rank can't split its ranks into groups \"", name,
         "\": it knows the axes of its mesh, and how many ranks these would have is not among that; make it an axis");
  }

 private:
  planned_group(std::shared_ptr<const std::vector<planned_place>> groups, int rank, int size)
      : rank_(rank), size_(size), groups_(std::move(groups)) {}

  static void reduce(const comm_call& call) {
    move(call.in, call.out, call.bytes());
    if (call.type != dtype::f64 || call.how != reduction::sum || detail::is_planned(call.out)) return;
    auto* sums = static_cast<double*>(call.out);
    if (std::all_of(sums, sums + call.count, [](double x) { return x == 0; })) std::fill_n(sums, call.count, 1.0);
  }
  static const void* part(const void* of, std::int64_t at) { return static_cast<const std::byte*>(of) + at; }
  static void* part(void* of, std::int64_t at) { return static_cast<std::byte*>(of) + at; }
  static void move(const void* in, void* out, std::int64_t bytes) {
    if (in != out && bytes > 0 && !detail::is_planned(in) && !detail::is_planned(out))
      std::memmove(out, in, static_cast<std::size_t>(bytes));
  }
  static void clear(void* out, std::int64_t bytes) {
    if (bytes > 0 && !detail::is_planned(out)) std::memset(out, 0, static_cast<std::size_t>(bytes));
  }

  int rank_, size_;
  std::shared_ptr<const std::vector<planned_place>> groups_;
};

}  // namespace weft
