// Device memory that NCCL may read and write in place (its user buffer registration): ncclMemAlloc gives it, and each
// communicator has a chunk of it registered, once, by the first of its operations that has an array there. Invariant: a
// chunk is freed when its GPU has done with it and no communicator that lives has it registered; which chunks there
// are, and who may have registered them, is one list of the process.
#pragma once

#include <bit>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <weft/backend/cuda/memory.cuh>
#include <weft/backend/cuda/nccl_calls.cuh>

namespace weft::gpu {

/// Whoever has communicators.
struct nccl_registrant {
  virtual ~nccl_registrant() = default;
  /// The chunk that begins there is about to be freed.
  virtual void let_go(const std::byte* chunk) noexcept = 0;
};

/// All of the process's. `owners` is locked before any lock of a registrant's, `lock` after it.
class nccl_memory {
 public:
  /// NCCL's memory comes in so much, which an arena's chunks are multiples of: the granularity of physical memory that
  /// CUDA recommends on every GPU so far.
  static constexpr std::size_t granularity = std::size_t{2} << 20;
  struct chunk {
    std::size_t bytes = 0;
    int gpu = 0;
  };
  struct place {
    std::byte* first = nullptr;  // null: it lies in no chunk
    std::size_t bytes = 0;
  };

  static nccl_memory& of_process() {
    static nccl_memory& one = *new nccl_memory;  // CUDA may end before what is static
    return one;
  }

  /// Memory of the calling thread's device, or null when it has no more; other failures throw weft::failure.
  static void* allocate(std::size_t bytes) {
    chunk made{bytes, 0};
    check(cudaGetDevice(&made.gpu), "cudaGetDevice");
    void* at = nullptr;
    if (const ncclResult_t status = ncclMemAlloc(&at, bytes); status != ncclSuccess) {
      cudaGetLastError();  // where it came by cudaMalloc
      std::size_t left = 0, all = 0;
      check(cudaMemGetInfo(&left, &all), "cudaMemGetInfo");
      if (left < bytes + granularity) return nullptr;
      fail_nccl(status, "ncclMemAlloc", nullptr);
    }
    nccl_memory& all = of_process();
    const std::lock_guard lock(all.lock_);
    all.chunks_[static_cast<std::byte*>(at)] = made;
    return at;
  }
  /// Waits for the GPU, as cudaFree does.
  static void release(void* memory) {
    nccl_memory& all = of_process();
    auto* const first = static_cast<std::byte*>(memory);
    const chunk gone = [&] {
      const std::lock_guard lock(all.lock_);
      return all.chunks_.extract(first).mapped();
    }();
    int before = 0;
    const bool known = cudaGetDevice(&before) == cudaSuccess;
    cudaSetDevice(gone.gpu);
    cudaDeviceSynchronize();
    {
      const std::lock_guard lock(all.owners_lock_);
      for (nccl_registrant* const owner : all.owners_) owner->let_go(first);
    }
    ncclMemFree(memory);
    if (known) cudaSetDevice(before);
  }
  /// The chunk in which `at` lies.
  place find(const void* at) const {
    const auto* const byte = static_cast<const std::byte*>(at);
    const std::lock_guard lock(lock_);
    const auto after = chunks_.upper_bound(byte);
    if (after == chunks_.begin()) return {};
    const auto& [first, one] = *std::prev(after);
    return byte < first + one.bytes ? place{first, one.bytes} : place{};
  }

  void add(nccl_registrant& owner) {
    const std::lock_guard lock(owners_lock_);
    owners_.push_back(&owner);
  }
  /// last() drops all that it has registered; no chunk goes meanwhile.
  template <class F>
  void remove(nccl_registrant& owner, const F& last) {
    const std::lock_guard lock(owners_lock_);
    last();
    std::erase(owners_, &owner);
  }

 private:
  mutable std::mutex lock_;
  std::map<std::byte*, chunk, std::less<>> chunks_;  // by where they begin
  std::mutex owners_lock_;
  std::vector<nccl_registrant*> owners_;
};

/// What one communicator has registered, under the lock of its job.
class nccl_registrations {
 public:
  /// Whether `at` lies in a chunk; if `comm` hasn't registered that, it does. Local to the rank: nobody waits.
  bool add(ncclComm_t comm, const void* at) {
    const auto* const byte = static_cast<const std::byte*>(at);
    if (const auto after = chunks_.upper_bound(byte); after != chunks_.begin()) {
      const auto& [first, one] = *std::prev(after);
      if (byte < first + one.bytes) return true;
    }
    const nccl_memory::place in = nccl_memory::of_process().find(at);
    if (!in.first) return false;
    entry made{in.bytes, nullptr};
    check(ncclCommRegister(comm, in.first, in.bytes, &made.handle), "ncclCommRegister", comm);
    chunks_[in.first] = made;
    return true;
  }
  bool has(const std::byte* chunk) const { return chunks_.count(chunk) > 0; }
  void remove(ncclComm_t comm, const std::byte* chunk) {
    const entry gone = chunks_.extract(chunk).mapped();
    if (gone.handle) check(ncclCommDeregister(comm, gone.handle), "ncclCommDeregister", comm);
  }
  void remove_all(ncclComm_t comm) {
    while (!chunks_.empty()) remove(comm, chunks_.begin()->first);
  }
  /// The communicator was aborted, and its handles with it.
  void forget() { chunks_.clear(); }

 private:
  struct entry {
    std::size_t bytes;
    void* handle;  // null: NCCL was told to register nothing (NCCL_LOCAL_REGISTER=0), or can't
  };
  std::map<const std::byte*, entry, std::less<>> chunks_;
};

/// Memory beside an operation's arrays, for operations that use it one after the other. What is too small stays until
/// the launch ends: to free it would wait for all that the GPU does. Sizes are powers of 2, so all of it is less than
/// twice the last.
class nccl_scratch {
 public:
  /// On a GPU; `registered`: of NCCL's, as the arrays are that it is sent to or from.
  void* at_least(std::size_t bytes, int gpu, bool registered) {
    kind& of = kinds_[registered];
    if (bytes > of.bytes) {
      const std::size_t size = std::bit_ceil(bytes);
      const memory_source from =
          registered ? memory_source{nccl_memory::allocate, nccl_memory::release} : device_memory();
      const scoped_device here(gpu);
      block made(from.allocate(size), from.release);
      require(made != nullptr, "out of device memory: what is folded from all ranks needs ", size, " bytes");
      of.blocks.push_back(std::move(made));
      of.bytes = size;
    }
    return of.blocks.back().get();
  }

 private:
  using block = std::unique_ptr<void, void (*)(void*)>;
  struct kind {
    std::vector<block> blocks;
    std::size_t bytes = 0;  // of the last
  };
  kind kinds_[2];
};

/// For an arena whose tensors are collectives' arrays. Its chunks are whole multiples of what NCCL takes from the GPU,
/// so that the ledger's `reserved` is that.
inline memory_source registered_memory() {
  require(nccl_registers, "registered buffers take NCCL 2.19 or later, and this program was compiled with NCCL ",
          NCCL_MAJOR, ".", NCCL_MINOR, "; leave launch_options.registered_buffers off, or take a later nccl.h");
  return {nccl_memory::allocate, nccl_memory::release, {}, nccl_memory::granularity};
}

}  // namespace weft::gpu
