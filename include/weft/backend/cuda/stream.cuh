// The queue of the CUDA backend: a stream of one device, with what its kernels need at hand.
// Invariant: work of one stream runs in the order it was given; nothing here waits but wait() and copies to or from the host.
#pragma once

#include <weft/backend/cuda/blas.cuh>

namespace weft::cuda {
namespace detail {

struct destroy_stream {
  void operator()(cudaStream_t s) const { cudaStreamDestroy(s); }
};
/// Makes the device the thread's before anything is made on it.
struct on_device {
  explicit on_device(int device) : number(device) { use_device(device); }
  int number;
};

}  // namespace detail

class stream {
 public:
  /// Makes `device` the calling thread's, too. Throws weft::error where there is no such GPU.
  explicit stream(int device = 0) : device_(device) {
    cudaStream_t raw = nullptr;
    check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    stream_.reset(raw);
    check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream() { cudaStreamSynchronize(stream_.get()); }

  cudaStream_t get() const { return stream_.get(); }
  int device() const { return device_.number; }
  int multiprocessors() const { return multiprocessors_; }
  cuda::blas& blas() { return blas_; }

  /// Returns when all work given so far is done. Throws weft::error when some of it failed.
  void wait() { check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize"); }

  /// Memory of at least `bytes` for one kernel and the next of this stream; valid until the next call.
  void* scratch(std::size_t bytes) {
    if (bytes > scratch_bytes_) {
      wait();
      scratch_.reset();
      scratch_bytes_ = 0;
      scratch_.reset(allocate(bytes));
      require(scratch_ != nullptr, "out of device memory: a kernel's scratch needs ", bytes, " bytes");
      scratch_bytes_ = bytes;
    }
    return scratch_.get();
  }

 private:
  detail::on_device device_;
  int multiprocessors_ = 0;
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, detail::destroy_stream> stream_;
  cuda::blas blas_;
  device_pointer scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace weft::cuda
