// The data movement of one operation whose ranks have all called it, cut into pieces that any thread may do.
// Invariant: a byte of output is written by one piece and read by no other: pieces run in any order, on any thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "weft/comm/call.hpp"
#include "weft/comm/detail/copy.hpp"
#include "weft/comm/detail/fold.hpp"

namespace weft::detail {

/// In place is safe without scratch memory: the piece that writes an element is also the only one that reads it.
/// Rows: one per rank for all_gather, all_to_all (by source) and reduce_scatter (by destination); else a single one.
class pieces {
 public:
  static constexpr std::int64_t most_bytes = 128 << 10;  // of one row in one piece
  static constexpr std::int64_t least_bytes = 4 << 10;
  static constexpr std::int64_t large = 32 << 20;  // bytes of work that exceed most shared caches

  explicit pieces(int ranks)
      : ranks_(ranks),
        in_(static_cast<std::size_t>(ranks)),
        out_(static_cast<std::size_t>(ranks)),
        send_bytes_(static_cast<std::size_t>(ranks)),
        recv_bytes_(static_cast<std::size_t>(ranks)) {}

  /// `calls(r)` is the call of rank r; all agree.
  template <class Calls>
  void plan(const Calls& calls) {
    what_ = calls(0);
    for (int r = 0; r < ranks_; ++r) {
      in_.data()[r] = static_cast<const std::byte*>(calls(r).in);
      out_.data()[r] = static_cast<std::byte*>(calls(r).out);
      send_bytes_.data()[r] = calls(r).send_bytes;
      recv_bytes_.data()[r] = calls(r).recv_bytes;
    }
    if (what_.is(comm_operation::all_to_allv)) return plan_rows();
    const comm_operation v = what_.operation;
    const bool by_rank = v == comm_operation::all_gather || v == comm_operation::split ||
                         v == comm_operation::reduce_scatter || v == comm_operation::all_to_all;
    const std::int64_t width = what_.width(), bytes = what_.count * width;
    std::int64_t piece = by_rank ? bytes : (bytes + ranks_ - 1) / ranks_;
    piece = piece > most_bytes ? most_bytes : piece < least_bytes ? least_bytes : (piece + 63) / 64 * 64;
    step_ = piece / width;
    a_row_ = (what_.count + step_ - 1) / step_;
    count_ = a_row_ * (by_rank ? ranks_ : 1);
    work_ = bytes * ranks_ * (by_rank ? ranks_ : 1);
    bool in_place = false;  // then outputs are in the cache, having been read
    for (std::size_t r = 0; r < in_.size(); ++r) in_place = in_place || in_[r] == out_[r];
    around_cache_ = work_ > large && !(in_place && v == comm_operation::all_reduce);
  }

  /// There is nothing to move here.
  void plan_nothing() { count_ = work_ = 0; }

  std::int64_t count() const { return count_; }
  std::int64_t work() const { return work_; }  // bytes moved, roughly

  void run(std::int64_t piece) const {
    move(piece);
    if (around_cache_) publish_copies();
  }

 private:
  /// A piece a source, whatever its size.
  void plan_rows() {
    count_ = ranks_;
    work_ = 0;
    for (const std::int64_t* sizes : send_bytes_)
      for (int r = 0; r < ranks_; ++r) work_ += sizes[r];
    around_cache_ = work_ > large;
  }
  WEFT_LINKED void move_row(std::int64_t from) const {
    std::int64_t sent = 0;
    for (int to = 0; to < ranks_; ++to) {
      std::int64_t received = 0;
      for (std::int64_t r = 0; r < from; ++r) received += recv_bytes_.data()[to][r];
      const std::int64_t bytes = send_bytes_.data()[from][to];
      if (bytes > 0) copy(out_.data()[to] + received, in_.data()[from] + sent, bytes, around_cache_);
      sent += bytes;
    }
  }
  WEFT_LINKED void move(std::int64_t piece) const {
    if (what_.is(comm_operation::all_to_allv)) return move_row(piece);
    const std::int64_t row = piece / a_row_, from = piece % a_row_ * step_;
    const std::int64_t count = what_.count - from < step_ ? what_.count - from : step_;
    const std::int64_t width = what_.width(), offset = row * what_.count * width, at = from * width;
    const std::byte* const* in = in_.data();
    std::byte* const* out = out_.data();
    switch (what_.operation) {
      case comm_operation::all_reduce:
        return fold(what_.type, what_.how, {in, ranks_, at, out, ranks_, at, count, around_cache_});
      case comm_operation::reduce_scatter:
        return fold(what_.type, what_.how, {in, ranks_, offset + at, out + row, 1, at, count, around_cache_});
      case comm_operation::all_gather:
      case comm_operation::split:
        for (int r = 0; r < ranks_; ++r) copy(out[r] + offset + at, in[row] + at, count, around_cache_);
        return;
      case comm_operation::all_to_all:
        for (int r = 0; r < ranks_; ++r) {
          copy(out[r] + offset + at, in[row] + r * what_.count + at, count, around_cache_);
        }
        return;
      case comm_operation::broadcast:
        for (int r = 0; r < ranks_; ++r) copy(out[r] + at, in[what_.peer] + at, count, around_cache_);
        return;
      case comm_operation::send:
      case comm_operation::recv:
        return copy(out[1] + at, in[0] + at, count, around_cache_);
      case comm_operation::all_to_allv:
      case comm_operation::barrier:
        return;
    }
  }

  int ranks_;
  std::vector<const std::byte*> in_;
  std::vector<std::byte*> out_;
  std::vector<const std::int64_t*> send_bytes_, recv_bytes_;
  comm_call what_;
  std::int64_t step_ = 1, a_row_ = 0, count_ = 0, work_ = 0;
  bool around_cache_ = false;
};

}  // namespace weft::detail
