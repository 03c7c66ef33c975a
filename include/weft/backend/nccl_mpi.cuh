// The communicator over NCCL whose ranks are processes that mpirun starts, on one machine or many, each with a GPU of
// its own.
//
// The names of NCCL's communicators, and all that lies in the host's memory, travel over `mpi`. Each rank gives NCCL
// its own operations, and nobody compares them with the others': as under `mpi`, launch_options.check does.
//
// Invariant: what moves between GPUs is NCCL's; what lies in the host's memory never goes there.
#pragma once

#include <weft/core/requirements.hpp>  // before any standard header

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <weft/backend/cuda.cuh>
#include <weft/backend/cuda/nccl_process.cuh>
#include <weft/comm/checked.hpp>
#include <weft/core/scoped_value.hpp>

namespace weft {

/// Ranks are processes; the k-th of a machine's is on GPU k there, or on the only one that it sees. Satisfies
/// `communicator_policy`; needs MPI 3 and NCCL 2.18 or later, and is no part of <weft/weft.cuh>.
///
/// Data of cuda_backend's tensors move over NCCL; small messages in the host's memory, and all data of other backends,
/// over MPI. Sums of floats are NCCL's, as under `nccl`. An operation waits for none of another group, nor one between
/// other ranks or of another tag. A rank that throws, or an error that NCCL reports, ends all ranks, also those that
/// wait for their GPU. Ranks that call different things hang or get wrong numbers; launch_options.check, or
/// checked<nccl_mpi>, tells them.
class nccl_mpi : public comm_operations<nccl_mpi> {
 public:
  static constexpr bool reduces_in_rank_order = false;
  static constexpr bool joins_graphs = true;

  int rank() const { return group_->boot.rank(); }
  int size() const { return group_->boot.size(); }
  static bool takes_queue(const queue_ref& queue) { return queue.is<gpu::stream>(); }

  request post(const comm_call& call) {
    return call.queue.runs_behind() ? process_->post(*group_, call) : group_->boot.post(call);
  }
  /// Memory of GPUs for arrays that NCCL moves without copying them in between: ncclMemAlloc's, of which a communicator
  /// registers each chunk with the first operation that has an array there (docs/policies/communicator.md). A launch's
  /// tensors lie in it where launch_options.registered_buffers is on; else it is for an arena of one's own, which ends
  /// with the function of its rank. All ranks' arrays of an operation lie there, or none's.
  /// @throws weft::failure where nccl.h is of NCCL 2.18.
  static memory_source registered_memory() { return gpu::registered_memory(); }

  /// A split is meant for setting up: its groups live until launch returns.
  [[gnu::cold]] nccl_mpi split(int color, int key, const char* name) {
    return {*process_, process_->add_group(group_->boot.split(color, key, name))};
  }

  /// Runs f(world) in this process, as mpi::launch does, with a GPU of its own, which is this thread's from then on.
  /// @throws weft::failure where two ranks of a machine come to the same GPU, or this process sees none.
  template <class F>
  static void launch(int ranks, F&& f) {
    mpi::launch(ranks, [&](mpi& boot) {
      const int gpu = choose_gpu(boot);
      gpu::use_device(gpu);  // for good: to be on GPU 0 again would take memory of it
      const scoped_value opened(gpu::gpu_of_thread, gpu::own_gpu{gpu, boot.rank()});
      gpu::nccl_process process(gpu);
      try {
        nccl_mpi world(process, process.add_group(boot));
        f(world);
        process.finish();
        boot.barrier().wait();  // communicators end when all ranks are done with them
      } catch (...) {
        process.fail();
        throw;
      }
    });
  }
  /// The same, with the ranks' calls compared; their type is checked<nccl_mpi>. weft::launch takes it where
  /// launch_options.check is on.
  template <class F>
  static void launch_checked(int ranks, F&& f) {
    checked<nccl_mpi>::launch(ranks, std::forward<F>(f));
  }

 private:
  nccl_mpi(gpu::nccl_process& process, gpu::nccl_process_group& group) : process_(&process), group_(&group) {}

  /// What NCCL tells machines apart by, too: NCCL_HOSTID, or the host's name and the number of its start.
  static std::uint64_t machine() {
    const std::hash<std::string> hash;
    if (const char* const given = std::getenv("NCCL_HOSTID")) return hash(given);
    char name[256] = {};
    gethostname(name, sizeof name - 1);
    std::string of = name;
    char boot_id[64] = {};
    if (std::FILE* const file = std::fopen("/proc/sys/kernel/random/boot_id", "r")) {
      of.append(boot_id, std::fread(boot_id, 1, sizeof boot_id, file));
      std::fclose(file);
    }
    return hash(of);
  }
  /// What ranks tell each other of where they are.
  struct place {
    std::uint64_t machine = 0;
    char card[32] = {};  // its address on the machine's bus, which doesn't depend on what a process sees
  };
  static std::vector<place> all_places(mpi& boot, const place& own) {
    std::vector<place> all(static_cast<std::size_t>(boot.size()));
    boot.all_gather(&own, all.data(), sizeof own).wait();
    return all;
  }
  /// The k-th process of a machine takes GPU k of those that it sees, counted round: the only one where it sees one.
  [[gnu::cold]] static int choose_gpu(mpi& boot) {
    place own;
    own.machine = machine();
    int before = 0;
    const std::vector<place> machines = all_places(boot, own);
    for (int r = 0; r < boot.rank(); ++r) before += machines[static_cast<std::size_t>(r)].machine == own.machine;
    const int gpus = gpu::device_count();
    if (gpus == 0) gpu::use_device(0);  // says so
    gpu::check(cudaDeviceGetPCIBusId(own.card, sizeof own.card, before % gpus), "cudaDeviceGetPCIBusId");
    const std::vector<place> all = all_places(boot, own);
    for (int b = 0; b < boot.size(); ++b)
      for (int a = 0; a < b; ++a) {
        const place &first = all[static_cast<std::size_t>(a)], &second = all[static_cast<std::size_t>(b)];
        require(first.machine != second.machine || std::strcmp(first.card, second.card) != 0, "nccl_mpi::launch(",
                boot.size(), ", f) gives every rank a GPU of its own, and ranks ", a, " and ", b, " have the same, ",
                first.card, " of one machine; start at most as many processes on a machine as it has GPUs, and let ",
                "each see all of them, or one that no other sees (this one sees ", gpus, ").");
      }
    return before % gpus;
  }

  gpu::nccl_process* process_;
  gpu::nccl_process_group* group_;
};

}  // namespace weft
