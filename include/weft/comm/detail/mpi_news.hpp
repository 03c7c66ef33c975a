// What the processes of a launch tell each other beside their operations: that one failed, and that all have come to
// the end. Invariant: what is told has communicators of its own, so it comes through whatever state operations are in.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "weft/comm/detail/mpi_group.hpp"

namespace weft::detail {

class mpi_news {
 public:
  /// All processes call it.
  void open() {
    failed_.clear();
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_size(comm_, &size_);
    due_ = size_ - 1;
    listen();
  }
  MPI_Comm comm() const { return comm_; }

  /// "rank 2 failed: the disk is full"; empty while none is known to have failed.
  const std::string& failed() const { return failed_; }
  /// Whether another rank says that one failed.
  void read() {
    int came = 0, length = 0;
    MPI_Status status;
    if (due_ > 0) check_mpi(MPI_Test(&heard_, &came, &status), "MPI_Test");
    if (came == 0) return;
    MPI_Get_count(&status, MPI_BYTE, &length);
    if (failed_.empty()) failed_.assign(told_, static_cast<std::size_t>(length));
    if (--due_ > 0) listen();
  }
  /// Tells every other rank what it is told itself too: that a rank failed.
  void tell(int rank, const std::string& sentence) {
    words_ = sentence.substr(0, sizeof told_);
    sent_.assign(static_cast<std::size_t>(size_), MPI_REQUEST_NULL);
    for (int r = 0; r < size_; ++r)
      if (r != rank)
        MPI_Isend(words_.data(), static_cast<int>(words_.size()), MPI_BYTE, r, 0, comm_,
                  &sent_[static_cast<std::size_t>(r)]);
    const auto until = clock::now() + std::chrono::seconds(1);
    while (!all_sent() && clock::now() < until) read();
  }

  /// Whoever comes to the end of a launch, in whatever way, says so.
  void post_end(bool well) {
    fails_[0] = !well;
    check_mpi(MPI_Iallreduce(&fails_[0], &fails_[1], 1, MPI_INT, MPI_MAX, comm_, &end_), "MPI_Iallreduce");
  }
  /// Whether all have, after post_end.
  bool all_at_end() {
    int done = 0;  // true from then on: the request is null
    check_mpi(MPI_Test(&end_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  }
  bool all_ended_well() { return all_at_end() && fails_[1] == 0; }

  /// After a launch that went well.
  void close() {
    if (due_ > 0) {
      MPI_Cancel(&heard_);
      MPI_Wait(&heard_, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&comm_);
  }
  /// After one that failed, when all processes have left it: what they told each other comes to its end.
  void settle() {
    const auto until = clock::now() + std::chrono::seconds(5);
    bool done = false;
    while (!done && clock::now() < until) read(), done = due_ == 0 && all_sent() && all_at_end();
    if (done) MPI_Comm_free(&comm_);
  }

 private:
  using clock = std::chrono::steady_clock;
  void listen() { check_mpi(MPI_Irecv(told_, sizeof told_, MPI_BYTE, MPI_ANY_SOURCE, 0, comm_, &heard_), "MPI_Irecv"); }
  bool all_sent() {
    int done = 0;
    MPI_Testall(static_cast<int>(sent_.size()), sent_.data(), &done, MPI_STATUSES_IGNORE);
    return done != 0;
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Request heard_ = MPI_REQUEST_NULL, end_ = MPI_REQUEST_NULL;
  int size_ = 1, due_ = 0;  // due: messages that come if the launch fails, one of each other rank
  char told_[1024] = {};
  int fails_[2] = {};  // this rank's, and whether any does
  std::string failed_, words_;
  std::vector<MPI_Request> sent_;
};

}  // namespace weft::detail
