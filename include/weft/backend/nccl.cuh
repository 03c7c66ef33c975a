// The communicator over NCCL: ranks are threads of one process, each with a GPU of its own.
//
// The ranks meet on the host, as those of `threads` do: there calls are compared, sends find their recvs by tag, and
// who waits in vain is told. Once all members of an operation have called it, it is given to NCCL for all of them in
// one group call. So what NCCL can't find by itself, ranks that call different things or never come, never reaches a
// GPU.
//
// Invariant: what moves between GPUs is NCCL's; what lies in the host's memory never goes there.
#pragma once

#include <weft/core/requirements.hpp>  // before any standard header

#include <memory>
#include <vector>

#include <weft/backend/cuda.cuh>
#include <weft/backend/cuda/nccl_mover.cuh>
#include <weft/comm/threads.hpp>
#include <weft/core/scoped_value.hpp>

namespace weft {

/// Ranks are threads, rank r on GPU r. Satisfies `communicator_policy`; needs NCCL 2.18 or later, and is no part of
/// <weft/weft.cuh>.
///
/// Data of cuda_backend's tensors move over NCCL; small messages in the host's memory, and all data of other backends,
/// as those of `threads`. Sums of floats are NCCL's: its order, and 16 bits rounded at every step; all else is as under
/// `threads`. Ranks that disagree, or wait in vain, end with the sentences of `threads`; where a rank throws, all
/// end; where NCCL reports an error, all that is under way is aborted, and all ranks end.
class nccl : public comm_operations<nccl> {
 public:
  static constexpr bool reduces_in_rank_order = false;

  int rank() const { return boot_.rank(); }
  int size() const { return boot_.size(); }
  static bool takes_queue(const queue_ref& queue) { return queue.is<gpu::stream>(); }

  request post(const comm_call& call) {
    if (!call.queue.runs_behind()) return boot_.post(call);
    comm_call moved = call;
    moved.movers = seat_.get();
    return boot_.post(moved);
  }

  /// Memory of GPUs for arrays that NCCL moves without copying them in between: ncclMemAlloc's, of which a communicator
  /// registers each chunk with the first operation that has an array there (docs/policies/communicator.md). A launch's
  /// tensors lie in it where launch_options.registered_buffers is on; else it is for an arena of one's own, which ends
  /// with the function of its rank. All ranks' arrays of an operation lie there, or none's.
  /// @throws weft::failure where nccl.h is of NCCL 2.18.
  static memory_source registered_memory() { return gpu::registered_memory(); }

  /// A split is meant for setting up: its groups live until launch returns.
  [[gnu::cold]] nccl split(int color, int key, const char* name) {
    std::vector<int> colors(static_cast<std::size_t>(size()));
    boot_.all_gather(&color, colors.data(), sizeof color).wait();
    int first = 0;  // of the ranks of this color: NCCL takes no color below 0
    while (colors[static_cast<std::size_t>(first)] != color) ++first;
    gpu::nccl_job& job = seat_->job;
    gpu::nccl_seat& parent = seat_->group.at(rank());
    parent.queue->synchronize();  // all ranks are here: a communicator is split with nothing of its own outstanding
    const threads boot = boot_.split(color, key, name);
    const nccl made(boot, job, [&](gpu::nccl_group& made) {
      if (size() == 1) return true;
      ncclConfig_t config = gpu::nccl_config();
      return job.make(made, boot.rank(), "ncclCommSplit", &parent, [&](ncclComm_t* comm) {
        return ncclCommSplit(parent.comm, boot.size() > 1 ? first : NCCL_SPLIT_NOCOLOR, boot.rank(), comm, &config);
      });
    });
    boot_.barrier().wait();  // while it is split it takes no operations
    return made;
  }

  /// Runs f(world) on `ranks` ranks, as threads::launch does, each with a GPU of its own.
  /// @throws weft::failure where there are fewer GPUs.
  template <class F>
  static void launch(int ranks, F&& f) {
    require_gpus(ranks);
    gpu::nccl_job job;
    threads::launch(ranks, [&](threads& boot) {
      const gpu::scoped_device gpu(boot.rank());
      const scoped_value opened(gpu::gpu_of_thread, gpu::own_gpu{boot.rank(), boot.rank()});
      try {
        nccl world = first(boot, job);
        f(world);
        job.require_sound();
      } catch (...) {
        job.rank_fails();
        throw;
      }
    });
  }

 private:
  /// A rank's place in a group, which says who moves the data of its calls.
  struct seat final : mover_maker {
    seat(gpu::nccl_job& of, gpu::nccl_group& in, int as) : job(of), group(in), rank(as) {}
    std::unique_ptr<device_mover> mover(const comm_call& call, int members) override {
      std::vector<int> ranks;
      for (int m = 0; m < members; ++m) ranks.push_back(m);
      if (call.pairs()) ranks = {rank, call.peer};
      if (call.is(comm_operation::recv)) std::swap(ranks[0], ranks[1]);
      return std::make_unique<gpu::nccl_mover>(job, group, std::move(ranks));
    }
    gpu::nccl_job& job;
    gpu::nccl_group& group;
    const int rank;
  };

  /// A new group over `boot`: make(group) gives this rank its communicator of NCCL's, where there are several ranks.
  template <class Make>
  nccl(const threads& boot, gpu::nccl_job& job, const Make& make) : boot_(boot) {
    gpu::nccl_group* group = rank() == 0 ? job.add(size()) : nullptr;
    boot_.broadcast(&group, sizeof group, 0).wait();
    seat_ = std::make_shared<seat>(job, *group, rank());
    gpu::nccl_seat& own = group->at(rank());
    own.gpu = gpu::gpu_of_thread.number;
    own.queue = std::make_unique<gpu::stream>(own.gpu);
    const bool made = make(*group);
    boot_.barrier().wait();  // whoever comes last to an operation gives it for all; where a rank failed, this throws
    job.require_sound();
    require(made, "NCCL made no communicator");
  }
  static nccl first(const threads& world, gpu::nccl_job& job) {
    threads boot = world;
    ncclUniqueId id{};
    if (boot.rank() == 0 && boot.size() > 1) gpu::check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    boot.broadcast(&id, sizeof id, 0).wait();
    return nccl(boot, job, [&](gpu::nccl_group& made) {
      if (boot.size() == 1) return true;
      ncclConfig_t config = gpu::nccl_config();
      return job.make(made, boot.rank(), "ncclCommInitRankConfig", nullptr, [&](ncclComm_t* comm) {
        return ncclCommInitRankConfig(comm, boot.size(), id, boot.rank(), &config);
      });
    });
  }
  [[gnu::cold]] static void require_gpus(int ranks) {
    require(ranks >= 1, "nccl::launch takes 1 rank or more, not ", ranks, ".");
    const int gpus = gpu::device_count();
    if (gpus == 0) gpu::use_device(0);  // says so
    require(ranks <= gpus, "nccl::launch(", ranks, ", f) gives every rank a GPU of its own, and this machine has ",
            gpus, "; launch at most so many ranks, or take the communicator threads, whose ranks share GPU 0.");
  }

  threads boot_;
  std::shared_ptr<seat> seat_;
};

}  // namespace weft
