// This process as one rank of MPI: when MPI begins and ends, and how a launch does. Invariant: MPI ends with the
// program and once; where a launch left it in a state in which it can't end, all processes are ended.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "weft/comm/detail/error_words.hpp"
#include "weft/comm/detail/mpi_operations.hpp"

namespace weft::detail {

class mpi_process {
  using clock = std::chrono::steady_clock;

 public:
  /// The process's own, never destroyed: MPI ends after the last static object. MPI begins with the first call.
  static mpi_process& get() {
    static mpi_process* const only = new mpi_process;
    return *only;
  }
  int rank() const { return rank_; }
  mpi_operations& operations() {
    require(open_, "a communicator of mpi::launch was used after the launch.");
    return operations_;
  }

  // ---- a launch ----

  std::shared_ptr<mpi_group> open(int ranks) {
    require(!open_.exchange(true), "mpi::launch was called while another launch of this process runs.");
    try {
      require(!operations_.lost(),
              "an earlier launch ended with an error while operations were under way, which MPI can't take back: this "
              "process can't launch again.");
      check_size(ranks);
      apart_ = !meet(true, clock::time_point::max());
      require(!apart_, "rank ", rank_,
              " launches, and another process of this program ended without; every process "
              "has to come to the same launches.");
      operations_.clear();
      operations_.news.open();
      MPI_Comm world = MPI_COMM_NULL;
      check_mpi(MPI_Comm_dup(operations_.news.comm(), &world), "MPI_Comm_dup");
      failed_ = false;
      return add_group(world, "world");
    } catch (...) {
      open_ = false;
      throw;
    }
  }
  std::shared_ptr<mpi_group> add_group(MPI_Comm now, const char* name) {
    auto made = std::make_shared<mpi_group>();
    made->now = now;
    check_mpi(MPI_Comm_dup(now, &made->later), "MPI_Comm_dup");
    MPI_Comm_rank(now, &made->rank);
    MPI_Comm_size(now, &made->size);
    made->name = name;
    groups_.push_back(made);
    return made;
  }
  /// This rank's function has returned: waits for the others'. Throws the error of one that failed.
  void close() {
    operations_.news.post_end(true);
    while (operations_.news.failed().empty() && !operations_.news.all_ended_well())
      operations_.news.read(), operations_.move_on(), std::this_thread::yield();
    if (!operations_.news.failed().empty()) {
      leave(operations_.news.failed());
      throw failure(operations_.news.failed());
    }
    for (const std::shared_ptr<mpi_group>& g : groups_) {  // in the order in which all their ranks made them
      MPI_Comm_free(&g->later);
      MPI_Comm_free(&g->now);
    }
    groups_.clear();
    operations_.news.close();
    open_ = false;
  }
  /// This rank's function has thrown. Throws: its error, or that of the rank which failed first.
  [[noreturn]] void close(const std::exception_ptr& error) {
    if (!operations_.news.failed().empty()) {
      try {
        std::rethrow_exception(error);
      } catch (const aborted&) {
        post_end();
        leave(operations_.news.failed());
        throw failure(operations_.news.failed());
      } catch (...) {
        post_end();
        leave(operations_.news.failed());
        throw;
      }
    }
    const std::string words = words_of(error);
    if (operations_.lost()) {
      complain("failed: " + words);
      abort_all();
    }
    post_end();
    leave(text("rank ", rank_, " failed: ", words));
    std::rethrow_exception(error);
  }

 private:
  mpi_process() {
    int begun = 0;
    MPI_Initialized(&begun);
    if (!begun) {
      int level = MPI_THREAD_SINGLE;
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
      MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // MPICH asks it for a request's errors
      begins_ = true;
      require(level >= MPI_THREAD_SERIALIZED,
              "this MPI serves the main thread only; weft::mpi asks for MPI_THREAD_SERIALIZED.");
    }
    std::atexit([] { get().end(); });
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &meeting_), "MPI_Comm_dup");
  }

  /// Where every process comes when it launches, and when it exits. Whether all do the same; false too after `until`.
  bool meet(bool launches, clock::time_point until) {
    does_[0] = launches, does_[1] = !launches;
    int done = 0;
    check_mpi(MPI_Iallreduce(does_, all_do_, 2, MPI_INT, MPI_MAX, meeting_, &met_), "MPI_Iallreduce");
    while (true) {
      check_mpi(MPI_Test(&met_, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done != 0) break;
      if (clock::now() > until) return false;
      launches ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    if (failed_) operations_.news.settle();
    return all_do_[launches ? 1 : 0] == 0;
  }
  [[gnu::cold]] void check_size(int ranks) const {
    if (ranks == size_) return;
    std::string other;
    if (size_ == 1)
      for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
        if (const char* n = std::getenv(name); n && std::atoi(n) > 1 && other.empty()) {
          char library[MPI_MAX_LIBRARY_VERSION_STRING] = {};
          int length = 0;
          MPI_Get_library_version(library, &length);
          other = text(" (", n,
                       " processes were started, but by another MPI than the one that this program is built "
                       "with, ",
                       std::string(library).substr(0, std::string(library).find_first_of(",\n")),
                       ": take that one's mpirun)");
        }
    fail("mpi::launch(", ranks, ", f) takes ", ranks, ranks == 1 ? " process" : " processes",
         ", and this program was started as ", size_, other, "; start it with: mpirun -n ", ranks, " PROGRAM ...");
  }

  void post_end() {
    if (!operations_.lost()) operations_.news.post_end(false);
  }
  /// After a launch that failed: its communicators are left as they are, with what may be pending on them.
  void leave(const std::string& sentence) {
    if (!operations_.lost()) operations_.news.tell(rank_, sentence);
    groups_.clear();
    operations_.clear();
    failed_ = true;
    open_ = false;
  }
  void complain(const std::string& words) const {
    std::fprintf(stderr, "weft: rank %d of %d %s\n", rank_, size_, words.c_str());
    std::fflush(stderr);
  }
  /// Ends all processes, when mpirun has had the time to read what was said: it drops what is still in a pipe.
  static void abort_all() {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  /// When the program exits.
  void end() noexcept {
    int over = 0;
    MPI_Finalized(&over);
    if (over != 0 || ending_) return;
    ending_ = true;
    bool stuck = false;
    if (open_ && size_ > 1) {
      complain("called exit while its launch ran; all processes end");
      stuck = true;
    } else if (operations_.lost()) {
      stuck = true;
    } else if (size_ > 1 && !apart_) {
      const auto until = failed_ ? clock::now() + std::chrono::seconds(5) : clock::time_point::max();
      meet(false, until);
      stuck = met_ != MPI_REQUEST_NULL;
    }
    if (stuck) abort_all();
    if (begins_) MPI_Finalize();
  }

  int rank_ = 0, size_ = 1;
  bool begins_ = false;            // it began MPI, so it ends it
  std::atomic<bool> open_{false};  // a launch runs
  bool failed_ = false;            // the last launch did
  bool apart_ = false;             // the processes came to different launches, so they meet no more
  bool ending_ = false;
  int does_[2] = {}, all_do_[2] = {};  // launch, exit
  MPI_Comm meeting_ = MPI_COMM_NULL;
  MPI_Request met_ = MPI_REQUEST_NULL;
  mpi_operations operations_;
  std::vector<std::shared_ptr<mpi_group>> groups_;
};

}  // namespace weft::detail
