// The queue of the CUDA backend: a stream of one device, with what its kernels need.
// Invariant: work of one stream runs in the order it was given; only synchronize(), scratch(), copies to the host and
// large ones from it wait, and what a graph keeps back is launched before they do.
#pragma once

#include <exception>
#include <map>
#include <typeindex>

#include <weft/backend/cuda/attention_by_warpgroups.cuh>
#include <weft/backend/cuda/blas.cuh>
#include <weft/backend/cuda/event.cuh>
#include <weft/backend/cuda/launch.cuh>
#include <weft/backend/cuda/scan.cuh>
#include <weft/backend/cuda/sort.cuh>
#include <weft/backend/cuda/staging.hpp>
#include <weft/backend/cuda/stream_mover.hpp>

namespace weft::gpu {
namespace detail {

struct destroy_stream {
  void operator()(cudaStream_t s) const { cudaStreamDestroy(s); }
};
struct free_pinned {
  void operator()(void* memory) const { cudaFreeHost(memory); }
};
/// Makes the device the thread's before anything is made on it.
struct on_device {
  explicit on_device(int device) : number(device) { use_device(device); }
  int number;
};

}  // namespace detail

class stream : public pinned_count {
 public:
  static constexpr int block_threads = gpu::block_threads;
  static constexpr bool runs_behind = true;

  /// Makes `device` the calling thread's, too. Throws weft::failure where there is no such GPU.
  explicit stream(int device = 0) : stream(device, nullptr) {}
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream() {
    try {
      if (std::uncaught_exceptions() > 0) graph_->drop();
      graph_->remove(stream_.get());
    } catch (...) {  // the device has failed, and was heard of elsewhere
    }
    cudaStreamSynchronize(stream_.get());
  }

  using event = gpu::event;
  /// Another stream of the same device, which becomes the calling thread's.
  std::unique_ptr<stream> beside() const { return std::unique_ptr<stream>(new stream(device_.number, graph_)); }
  /// Whether this stream takes part in that one's graphs.
  bool is_beside(const stream& other) const { return graph_ == other.graph_; }
  /// From now on it does; both are of one device, and neither keeps anything back. `guest` is told of the graphs.
  void join(const stream& other, const std::shared_ptr<graph_guest>& guest) {
    graph_->remove(stream_.get());
    other.graph_->add(stream_.get());
    other.graph_->invite(guest);
    graph_ = other.graph_;
  }
  /// From now on it takes part in no other's graphs.
  void leave() {
    graph_->remove(stream_.get());
    graph_ = std::make_shared<step_graph>(stream_.get());
  }
  /// e happens once all work given so far is done.
  void record(event& e) {
    check(cudaEventRecord(e.get(), stream_.get()), "cudaEventRecord");
    if (e.of_ != graph_) e.of_ = graph_;
    if (const std::uint64_t number = graph_->kept_back(); e.number_ != number) e.number_ = number;
  }
  /// What is given from now on begins after e, as it was last recorded.
  void wait(const event& e) {
    const bool own = e.of_ == graph_;
    require(own || !e.kept_back(),
            "a stream waits for an event that another rank's stream keeps back in its graph: launch_graph() there "
            "comes first; ranks that are threads of a process have no collectives in graphs: launch before each");
    if (graph_->kept_back() > 0 && !e.kept_back()) {
      if (own) return;  // all that these streams were given before precedes the graph
      graph_->flush();  // what a graph has can't wait for what it hasn't
    }
    if (e.number_ > 0 && !e.kept_back()) return e.of_->precede(e.number_, stream_.get());
    check(cudaStreamWaitEvent(stream_.get(), e.get()), "cudaStreamWaitEvent");
  }

  /// Keeps back what this stream and those beside it are given from now on, up to launch_graph(), as a CUDA graph; it
  /// waits for the graph before the last. Where the host waits for any of it meanwhile, what there is is launched, and
  /// the rest goes as without a graph. Does nothing where a graph is begun. An event of it ends before the queue.
  void begin_graph() { graph_->begin(); }
  /// Launches it: by the executable graph of the one before where that has the same nodes, else by a new one. Throws
  /// weft::failure where CUDA refuses; nothing of the graph runs then.
  void launch_graph() { graph_->launch(); }
  /// The same where somebody waits for it.
  void flush_graph() { graph_->flush(); }
  bool keeps_back() const { return graph_->kept_back() > 0; }
  /// How many graphs were launched and made, and how many of them because somebody waited.
  const graph_counts& graphs() const { return graph_->counts(); }
  /// What moves data between ranks of this device.
  std::unique_ptr<device_mover> mover(int members) { return std::make_unique<stream_mover<stream>>(*this, members); }

  cudaStream_t get() const { return stream_.get(); }
  int device() const { return device_.number; }
  /// 8 blocks of 256 threads fill a multiprocessor of sm_90 where they use at most 32 registers a thread.
  int64 resident_blocks() const { return int64{8} * multiprocessors_; }
  /// 163 KiB of sm_80, 227 of sm_90, 99 of sm_86 and sm_89.
  std::size_t block_memory() const { return static_cast<std::size_t>(block_memory_); }
  /// Whether its warpgroups multiply: those of compute capability 9.x do, as code for sm_90a.
  bool has_warpgroups() const { return major_ == 9; }
  /// Whether its tensor cores multiply numbers of 8 bits: compute capability 8.9 and up.
  bool has_float8() const { return major_ > 8 || (major_ == 8 && minor_ >= 9); }

  /// Starts a kernel and returns.
  template <class Kernel>
  void start(int64 blocks, std::size_t shared_bytes, const Kernel& kernel) {
    launch(stream_.get(), blocks, shared_bytes, kernel);
  }
  /// out (+)= first * second by cuBLASLt, and what comes after; false, and nothing done, where it can't.
  bool multiply(const matmul_shape& size, dtype in, dtype out_type, const blas_product& p, const void* first,
                const void* second, void* out, bool accumulate, const matmul_epilogue& after) {
    return products().multiply(stream_.get(), size, in, out_type, p, first, second, out, accumulate, after);
  }
  /// The same of numbers of 8 bits, each times the number that undoes its scale.
  bool multiply_float8(const matmul_shape& size, dtype out_type, const blas_product& p, const std::uint8_t* first,
                       float8_form of_first, const float* undo_first, const std::uint8_t* second, float8_form of_second,
                       const float* undo_second, void* out, bool accumulate) {
    return products().multiply_float8(stream_.get(), size, of_first, of_second, out_type, p, first, second, out,
                                      accumulate, {undo_first, undo_second});
  }

  /// What a library that this file doesn't know keeps for the stream, such as a handle and its plans: made by
  /// Library(stream) when it is first asked for, and gone with the stream.
  template <class Library>
  Library& library() {
    std::shared_ptr<void>& kept = libraries_[std::type_index(typeid(Library))];
    if (!kept) kept = std::make_shared<Library>(*this);
    return *static_cast<Library*>(kept.get());
  }

  /// What sort() needs beside the keys, in bytes.
  template <class Key>
  static std::size_t sort_bytes(int64 count, key_bits bits) {
    return gpu::sort_bytes<Key>(count, bits);
  }
  /// sorted[0, count) = keys in ascending order of these bits, by CUB; `beside` is memory as sort_bytes says.
  template <class Key>
  void sort(const Key* keys, Key* sorted, int64 count, key_bits bits, void* beside, std::size_t bytes) {
    gpu::sort(stream_.get(), keys, sorted, count, bits, beside, bytes);
  }
  /// What row_least() and running_sum() need beside their arrays, in bytes.
  static std::size_t row_least_bytes(int64 rows, int64 width) { return gpu::row_least_bytes(rows, width); }
  template <class Value>
  static std::size_t running_sum_bytes(int64 n) {
    return gpu::running_sum_bytes<Value>(n);
  }
  /// least [rows] = of keys [rows, width], by CUB.
  void row_least(int64 rows, int64 width, const std::uint64_t* keys, std::uint64_t* least, void* beside,
                 std::size_t bytes) {
    gpu::row_least(stream_.get(), rows, width, keys, least, beside, bytes);
  }
  /// sums[i] = value(0) + ... + value(i), for i below n, by CUB.
  template <class Value>
  void running_sum(int64 n, const Value& value, int64* sums, void* beside, std::size_t bytes) {
    gpu::running_sum(stream_.get(), n, value, sums, beside, bytes);
  }

  /// From device to device memory.
  void copy(const void* from, void* to, std::size_t bytes) { copy(from, to, bytes, cudaMemcpyDeviceToDevice); }
  void zero(void* to, std::size_t bytes) {
    if (bytes) check(cudaMemsetAsync(to, 0, bytes, stream_.get()), "cudaMemsetAsync");
  }
  /// From the host's memory; returns when the host may write over it: at once for up to 1 MiB, which is staged.
  void upload(const void* host, void* to, std::size_t bytes) {
    if (uploads_.upload(*this, host, to, bytes)) return;
    graph_->flush();
    copy(host, to, bytes, cudaMemcpyHostToDevice);
    synchronize();
  }
  /// Into the host's memory; returns when the copy is done.
  void download(const void* from, void* host, std::size_t bytes) {
    graph_->flush();
    copy(from, host, bytes, cudaMemcpyDeviceToHost);
    synchronize();
  }

  /// Memory of the host's that copies needn't wait for, or null when there is none left.
  using pinned = std::unique_ptr<void, detail::free_pinned>;
  static pinned pinned_memory(std::size_t bytes) {
    void* memory = nullptr;
    if (cudaMallocHost(&memory, bytes) == cudaSuccess) return pinned(memory);
    cudaGetLastError();
    return {};
  }
  /// Between such memory and the device's; returns at once.
  void copy_pinned(const void* from, void* to, std::size_t bytes) { copy(from, to, bytes, cudaMemcpyDefault); }
  using landing = gpu::landing<stream>;

  /// f() on a thread of the driver's, once all work given so far is done; f itself gives no work and throws nothing.
  template <class F>
  void enqueue(F f) {
    auto held = std::make_unique<F>(std::move(f));
    check(cudaLaunchHostFunc(
              stream_.get(),
              [](void* given) {
                const std::unique_ptr<F> once(static_cast<F*>(given));
                (*once)();
              },
              held.get()),
          "cudaLaunchHostFunc");
    graph_->hold(held.release());
  }
  /// Returns when all work given so far is done. Throws weft::failure when some of it failed, here or on another rank
  /// that it waited for.
  void synchronize() {
    graph_->flush();
    check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
    graph_->require_sound();
  }

  /// Memory of at least `bytes` for one kernel and the next of this stream; valid until the next call.
  void* scratch(std::size_t bytes) {
    if (bytes > scratch_bytes_) {
      synchronize();
      scratch_.reset();
      scratch_bytes_ = 0;
      scratch_.reset(allocate(bytes));
      require(scratch_ != nullptr, "out of device memory: a kernel's scratch needs ", bytes, " bytes");
      scratch_bytes_ = bytes;
    }
    return scratch_.get();
  }
  /// What that memory takes.
  std::size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  // Of the streams that `graph` is of, or, where it is null, of its own.
  stream(int device, std::shared_ptr<step_graph> graph) : device_(device) {
    cudaStream_t raw = nullptr;
    check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    stream_.reset(raw);
    check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
    check(cudaDeviceGetAttribute(&block_memory_, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          "cudaDeviceGetAttribute");
    check(cudaDeviceGetAttribute(&major_, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
    check(cudaDeviceGetAttribute(&minor_, cudaDevAttrComputeCapabilityMinor, device), "cudaDeviceGetAttribute");
    if (graph) graph->add(raw);
    graph_ = graph ? std::move(graph) : std::make_shared<step_graph>(raw);
  }
  // With a workspace, which a stream without products needs not.
  gpu::blas& products() {
    if (!blas_) blas_ = std::make_unique<gpu::blas>();
    return *blas_;
  }
  void copy(const void* from, void* to, std::size_t bytes, cudaMemcpyKind kind) {
    if (bytes) check(cudaMemcpyAsync(to, from, bytes, kind, stream_.get()), "cudaMemcpyAsync");
  }

  detail::on_device device_;
  int multiprocessors_ = 0, block_memory_ = 0, major_ = 0, minor_ = 0;
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, detail::destroy_stream> stream_;
  std::shared_ptr<step_graph> graph_;
  std::unique_ptr<gpu::blas> blas_;
  device_pointer scratch_;
  std::size_t scratch_bytes_ = 0;
  staged_uploads<event, pinned> uploads_;
  std::map<std::type_index, std::shared_ptr<void>> libraries_;
};

}  // namespace weft::gpu
