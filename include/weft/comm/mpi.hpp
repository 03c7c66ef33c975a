// The communicator over MPI: ranks are processes, of one machine or of many, that mpirun starts.
//
// all_gather, all_to_all, broadcast and barrier are MPI's own non-blocking collectives, send and recv its messages.
// Reductions are not MPI_Iallreduce: MPI promises neither an order of additions nor the same bits on every rank, rounds
// 16-bit floats at each step, and lets MPI_MAX lose a NaN. So parts are exchanged as they are (MPI_Ialltoall), each
// rank folds its own in the order of ranks, by the function that `threads` folds with, and the sums go to all
// (MPI_Iallgather). That moves what the best MPI_Iallreduce does, 2 (P - 1) / P of the buffer, 16-bit floats as 16
// bits; results are those of `threads`, to the bit. Its price is memory for the parts, of 64 MiB at most for an
// operation.
//
// Invariant: ranks of a group post to MPI in one order, that of their calls, however they wait.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "weft/comm/checked.hpp"
#include "weft/comm/detail/mpi_process.hpp"

namespace weft {

/// Ranks are processes that mpirun started. Satisfies `communicator_policy`; needs MPI 3, and is no part of
/// <weft/weft.hpp>.
/// An operation moves on while this rank waits for any, tests one or calls another. Floats are added in the order of
/// ranks, those of 16 bits in float and rounded once, so results are bitwise the same on all ranks and in every run,
/// and equal to those of `threads`. MPI compares no calls: ranks that call different collectives hang or get wrong
/// numbers, and those that wait for what never comes hang. launch_options.check, or checked<mpi>, tells them.
class mpi : public comm_operations<mpi> {
 public:
  int rank() const { return group_->rank; }
  int size() const { return group_->size; }

  request post(const comm_call& call) {
    if (size() == 1 && !call.pairs()) return detail::copy_alone(call);
    const bool nothing =
        call.count == 0 && !call.pairs() && !call.is(comm_operation::barrier) && !call.is(comm_operation::all_to_allv);
    if (nothing) return {};  // on every rank of the group
    return detail::mpi_process::get().operations().post(
        [&](detail::mpi_operation& operation) { operation.begin(*group_, call); });
  }

  /// A split is meant for setting up: its groups live until launch returns.
  [[gnu::cold, gnu::noinline]] mpi split(int color, int key, const char* name) {
    // MPI_Comm_split blocks, and takes no color below 0. Once every rank's color is here, every rank has come.
    std::vector<int> colors(static_cast<std::size_t>(size()));
    all_gather(&color, colors.data(), sizeof color).wait();
    int first = 0;  // of the ranks of this color
    while (colors[static_cast<std::size_t>(first)] != color) ++first;
    MPI_Comm made = MPI_COMM_NULL;
    const std::lock_guard lock(detail::mpi_process::get().operations().calls);
    detail::check_mpi(MPI_Comm_split(group_->now, first, key, &made), "MPI_Comm_split");
    return mpi(detail::mpi_process::get().add_group(made, name));
  }

  /// Runs f(world) in this process, which is one of the `ranks` that mpirun started; returns when all are done. MPI
  /// begins with the first launch and ends when the program exits; a program may also begin and end it by itself.
  /// @throws weft::failure where mpirun started another number of processes: the sentence says what to write.
  /// A rank that throws ends the others: its error is rethrown in its own process, and in the others, out of whose
  /// collectives `aborted` is thrown, launch throws a weft::failure "rank 2 failed: ..." with the error's words. MPI
  /// can't take back a collective, so where one is left whose buffers die, all processes end by MPI_Abort with exit
  /// code 1: those of other ranks when they exit, and the rank that threw at once, after it has written the error to
  /// stderr.
  template <class F>
  static void launch(int ranks, F&& f) {
    require(ranks >= 1, "mpi::launch takes 1 rank or more, not ", ranks, ".");
    detail::mpi_process& process = detail::mpi_process::get();
    mpi world(process.open(ranks));
    std::exception_ptr error;
    try {
      f(world);
    } catch (...) {
      error = std::current_exception();
    }
    error ? process.close(error) : process.close();
  }

  /// The same, with the ranks' calls compared; their type is checked<mpi>. weft::launch takes it where
  /// launch_options.check is on.
  template <class F>
  static void launch_checked(int ranks, F&& f) {
    checked<mpi>::launch(ranks, std::forward<F>(f));
  }

  /// This process's rank, which is known before a launch: for what one process has to do for all.
  static int process_rank() { return detail::mpi_process::get().rank(); }

 private:
  explicit mpi(std::shared_ptr<detail::mpi_group> group) : group_(std::move(group)) {}

  std::shared_ptr<detail::mpi_group> group_;
};

}  // namespace weft
