// One operation of the communicator over MPI: which calls of MPI-3 carry it, and what is computed between them.
// Invariant: what a rank posts on a group's first communicator is in the order of the calls, and on its second one in
// the order of the operations, so that all ranks of the group post alike, whenever each of them moves on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/comm/call.hpp"
#include "weft/comm/detail/fold.hpp"
#include "weft/comm/detail/mpi_group.hpp"

namespace weft::detail {

/// One operation at a time. A reduction is done in steps; everything else is one step, of as many calls as its size
/// takes.
class mpi_operation {
 public:
  static constexpr std::int64_t most_message = std::int64_t(1) << 30;  // bytes of one call, over all ranks: an int
  static constexpr std::int64_t most_scratch = std::int64_t(64) << 20;
  static constexpr std::int64_t small = 8 << 10;  // bytes of all ranks that every rank folds by itself

  /// Posts what can be posted at once.
  void begin(mpi_group& g, const comm_call& call) {
    group_ = &g, call_ = call;
    in_ = static_cast<const std::byte*>(call.in), out_ = static_cast<std::byte*>(call.out);
    open_.clear();
    error_.clear();
    step_ = 0, steps_ = 1, posted_ = true;
    switch (call.operation) {
      case comm_operation::all_gather:
        return all_gather();
      case comm_operation::all_to_all:
        return all_to_all();
      case comm_operation::all_to_allv:
        return all_to_allv();
      case comm_operation::broadcast:
        return in_messages([&](std::int64_t at, int count) {
          check_mpi(MPI_Ibcast(out_ + at, count, MPI_BYTE, call.peer, g.now, next()), "MPI_Ibcast");
        });
      case comm_operation::send:
        return in_messages([&](std::int64_t at, int count) {
          check_mpi(MPI_Isend(in_ + at, count, MPI_BYTE, call.peer, call.tag, g.now, next()), "MPI_Isend");
        });
      case comm_operation::recv:
        return in_messages([&](std::int64_t at, int count) {
          check_mpi(MPI_Irecv(out_ + at, count, MPI_BYTE, call.peer, call.tag, g.now, next()), "MPI_Irecv");
        });
      case comm_operation::all_reduce:
      case comm_operation::reduce_scatter:
        return reduce();
      case comm_operation::barrier:
      case comm_operation::split:
        check_mpi(MPI_Ibarrier(g.now, next()), "MPI_Ibarrier");
    }
  }

  /// Moves on without blocking; true once it is complete.
  bool advance() {
    while (true) {
      if (posted_) {
        if (!all_arrived()) return false;
        posted_ = false;
        arrive();
        ++step_;
      }
      if (step_ >= steps_) return true;
      std::vector<mpi_operation*>& turns = group_->unposted;
      if (turns.front() != this) return false;
      post(group_->later);
      if (step_ + 1 == steps_) turns.erase(turns.begin());
    }
  }
  /// Whether MPI may still touch memory of the caller's.
  bool has_buffers() const { return !call_.is(comm_operation::barrier); }
  /// Takes it back from MPI, which does that for receives alone; false where MPI may still touch its buffers.
  bool withdraw() noexcept { return call_.is(comm_operation::recv) ? cancel_receives(open_) : !has_buffers(); }
  /// After the last step: throws where what arrived isn't what was expected.
  void check() const {
    if (!error_.empty()) fail(error_);
  }

 private:
  MPI_Request* next() { return &open_.emplace_back(MPI_REQUEST_NULL); }

  void all_gather() {
    const bool in_place = in_ == out_ + group_->rank * call_.count;
    in_rows([&](std::int64_t at, int count, MPI_Datatype row) {
      const auto post = [&](const void* from, int n, MPI_Datatype type) {
        check_mpi(MPI_Iallgather(from, n, type, out_ + at, row == MPI_BYTE ? count : 1, row, group_->now, next()),
                  "MPI_Iallgather");
      };
      in_place ? post(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL) : post(in_ + at, count, MPI_BYTE);
    });
  }
  void all_to_all() {
    in_rows([&](std::int64_t at, int count, MPI_Datatype row) {
      const int n = row == MPI_BYTE ? count : 1;
      check_mpi(MPI_Ialltoall(in_ + at, n, row, out_ + at, n, row, group_->now, next()), "MPI_Ialltoall");
    });
  }
  /// As messages, since sizes and places of MPI_Ialltoallv are ints.
  void all_to_allv() {
    std::int64_t sent = 0, received = 0;
    for (int r = 0; r < group_->size; sent += call_.send_bytes[r], received += call_.recv_bytes[r], ++r) {
      in_messages(call_.recv_bytes[r], [&](std::int64_t at, int count) {
        check_mpi(MPI_Irecv(out_ + received + at, count, MPI_BYTE, r, 0, group_->later, next()), "MPI_Irecv");
      });
      in_messages(call_.send_bytes[r], [&](std::int64_t at, int count) {
        check_mpi(MPI_Isend(in_ + sent + at, count, MPI_BYTE, r, 0, group_->later, next()), "MPI_Isend");
      });
    }
  }

  /// f(offset, bytes, type) for each part of P rows of so many bytes; the type is a part of a row, as long as a row.
  template <class F>
  void in_rows(const F& f) {
    const std::int64_t bytes = call_.count, most = std::max<std::int64_t>(1, most_message / group_->size);
    if (bytes <= most) return f(0, static_cast<int>(bytes), MPI_BYTE);
    for (std::int64_t at = 0; at < bytes; at += most) {
      const auto count = static_cast<int>(std::min(most, bytes - at));
      MPI_Datatype row = row_of(count, bytes);
      f(at, count, row);
      MPI_Type_free(&row);  // once the call that uses it is complete
    }
  }
  template <class F>
  void in_messages(const F& f) {
    in_messages(call_.count, f);
  }
  template <class F>
  static void in_messages(std::int64_t bytes, const F& f) {
    std::int64_t at = 0;
    do f(at, static_cast<int>(std::min(most_message, bytes - at)));
    while ((at += most_message) < bytes);
  }
  // ---- reductions ----

  void reduce() {
    const std::int64_t row = call_.bytes();  // that a rank would have of every other, or has in all
    scatters_ = call_.is(comm_operation::reduce_scatter);
    all_fold_ = !scatters_ && group_->size * row <= small;
    count_ = call_.count, width_ = call_.width();
    piece_ = std::max<std::int64_t>(1, most_scratch / width_ / (scatters_ ? group_->size : 1));
    if (all_fold_) piece_ = count_;
    steps_ = (count_ + piece_ - 1) / piece_ * (in_parts() ? 2 : 1);
    post(group_->now);
    if (steps_ > 1) group_->unposted.push_back(this);
  }
  /// Parts go to those who fold them, then sums to all.
  bool in_parts() const { return !scatters_ && !all_fold_; }

  std::int64_t from() const { return (in_parts() ? step_ / 2 : step_) * piece_; }  // of this step
  std::int64_t elements() const { return std::min(piece_, count_ - from()); }
  bool gathers() const { return in_parts() && step_ % 2 == 1; }
  /// An all_reduce's step is shared by the ranks, as evenly as whole elements go, the last ones' parts being shorter.
  std::int64_t begin_of(int rank) const {
    return std::min(elements(), (elements() + group_->size - 1) / group_->size * rank);
  }
  int bytes_of(int rank) const { return static_cast<int>((begin_of(rank + 1) - begin_of(rank)) * width_); }

  void post(MPI_Comm comm) {
    const int ranks = group_->size;
    const std::int64_t at = from() * width_;
    const auto bytes = static_cast<int>(elements() * width_);
    posted_ = true;
    open_.clear();
    counts_.resize(static_cast<std::size_t>(ranks) * 4);
    int* const counts = counts_.data();  // of what goes to each rank, then where; of what comes from each, then where
    for (int r = 0; r < ranks && in_parts(); ++r) {
      counts[r] = bytes_of(r), counts[ranks + r] = static_cast<int>(begin_of(r) * width_);
      counts[2 * ranks + r] = bytes_of(group_->rank), counts[3 * ranks + r] = r * bytes_of(group_->rank);
    }
    if (gathers()) {
      check_mpi(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out_ + at, counts, counts + ranks, MPI_BYTE, comm,
                                next()),
                "MPI_Iallgatherv");
    } else if (in_parts()) {
      check_mpi(MPI_Ialltoallv(in_ + at, counts, counts + ranks, MPI_BYTE, scratch(ranks * bytes_of(group_->rank)),
                               counts + 2 * ranks, counts + 3 * ranks, MPI_BYTE, comm, next()),
                "MPI_Ialltoallv");
    } else if (all_fold_) {
      check_mpi(MPI_Iallgather(in_, bytes, MPI_BYTE, scratch(ranks * bytes), bytes, MPI_BYTE, comm, next()),
                "MPI_Iallgather");
    } else {
      MPI_Datatype row = row_of(bytes, count_ * width_);
      check_mpi(MPI_Ialltoall(in_ + at, 1, row, scratch(ranks * std::int64_t(bytes)), bytes, MPI_BYTE, comm, next()),
                "MPI_Ialltoall");
      MPI_Type_free(&row);
    }
  }
  /// The ranks' parts are in the scratch memory, in their order; folded in that order.
  void arrive() {
    if (!call_.computes() || gathers()) return;
    const std::int64_t begin = in_parts() ? begin_of(group_->rank) : 0;
    const std::int64_t count = in_parts() ? begin_of(group_->rank + 1) - begin : elements();
    rows_.resize(static_cast<std::size_t>(group_->size));
    for (std::size_t r = 0; r < rows_.size(); ++r)
      rows_[r] = scratch_.get() + static_cast<std::int64_t>(r) * count * width_;
    fold(call_.type, call_.how, {rows_.data(), group_->size, 0, &out_, 1, (from() + begin) * width_, count});
  }
  std::byte* scratch(std::int64_t bytes) {
    if (bytes > scratch_bytes_) scratch_.reset(new std::byte[static_cast<std::size_t>(bytes)]), scratch_bytes_ = bytes;
    return scratch_.get();
  }

  bool all_arrived() {
    int done = 0;
    statuses_.resize(open_.size());
    const int code = MPI_Testall(static_cast<int>(open_.size()), open_.data(), &done, statuses_.data());
    if (code == MPI_SUCCESS && done == 0) return false;
    if (call_.is(comm_operation::recv)) {
      std::int64_t bytes = 0;
      for (MPI_Status& s : statuses_) {
        int part = 0;
        MPI_Get_count(&s, MPI_BYTE, &part);
        bytes += part;
      }
      if (code != MPI_SUCCESS || bytes != call_.count)
        error_ = text("rank ", call_.peer, " of group '", group_->name, "' sends ",
                      code != MPI_SUCCESS ? "more than" : std::to_string(bytes) + " bytes for", " the ", call_.count,
                      " bytes that rank ", group_->rank, " receives; make the two sizes equal.");
      return true;
    }
    check_mpi(code, "MPI_Testall");
    return true;
  }

  mpi_group* group_ = nullptr;
  comm_call call_;
  bool posted_ = false;                // the step was, and hasn't arrived
  std::int64_t step_ = 0, steps_ = 1;  // of an all_reduce two a piece: parts to those who fold them, then sums to all
  std::vector<MPI_Request> open_;
  std::vector<MPI_Status> statuses_;
  std::string error_;
  const std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
  // of a reduction
  bool scatters_ = false, all_fold_ = false;        // all_fold_: small enough that every rank folds all of it
  std::int64_t count_ = 0, width_ = 1, piece_ = 1;  // elements; bytes of one; elements of a step
  std::vector<int> counts_;
  std::vector<const std::byte*> rows_;
  std::unique_ptr<std::byte[]> scratch_;
  std::int64_t scratch_bytes_ = 0;
};

}  // namespace weft::detail
