// Attention by cuDNN, planned once for each shape of a stream. Invariant: a call that isn't taken has done nothing; of
// what was taken everything is queued, and the host waits for none of it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <initializer_list>
#include <map>
#include <memory>

#include <weft/backend/cuda/cudnn_plan.cuh>
#include <weft/backend/cuda/stream.cuh>
#include <weft/backend/cuda/words/elementwise.hpp>

namespace weft::gpu {
namespace detail {

struct destroy_cudnn {
  void operator()(cudnnHandle_t h) const { cudnnDestroy(h); }
};

/// What a plan depends on.
using cudnn_key = std::array<std::int64_t, 11>;

/// Pieces of one allocation, each aligned to 256 bytes.
class pieces {
 public:
  std::size_t add(std::size_t bytes) {
    const std::size_t at = bytes_;
    bytes_ += (bytes + 255) / 256 * 256;
    return at;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

}  // namespace detail

/// How many calls cuDNN took, and how many it left to other kernels.
struct cudnn_counts {
  std::int64_t taken = 0, left = 0;
};

/// A cuDNN handle with its plans; belongs to one stream.
class cudnn_attention {
 public:
  explicit cudnn_attention(stream& q) {
    require(cudnnGetVersion() >= 91600,
            "cudnn_backend runs with cuDNN 9.16 or later, and the one here says that it is ", cudnnGetVersion(),
            ": install another, or name cuda_backend");
    cudnnHandle_t raw = nullptr;
    check(cudnnCreate(&raw), "cudnnCreate");
    handle_.reset(raw);
    check(cudnnSetStream(raw, q.get()), "cudnnSetStream");
  }
  const cudnn_counts& counts() const { return counts_; }

  /// As attention_words::attention, but that sums are the log of the sum of exponentials, and 0; false, and nothing
  /// done, for what cuDNN doesn't take.
  template <class T>
  bool attend(stream& q, const attention_shape& s, const T* queries, const T* k, const T* v, T* out,
              accumulate_t<T>* sums) {
    const cudnn_plan* const plan = plan_for<T>(s, false, {queries, k, v, out, sums});
    if (!plan) return false;
    const std::int64_t rows = s.batch * s.heads * s.q_len;
    const detail::cudnn_arrays arrays{nullptr, queries, k, v, out, sums};
    detail::run(*plan, handle_.get(), s, arrays, q.scratch(plan->workspace));
    q.zero(sums + rows, static_cast<std::size_t>(rows) * sizeof *sums);
    return true;
  }

  /// As attention_words::attention_backward, of anybody's sums; false, and nothing done, for what cuDNN doesn't take.
  /// Takes scratch memory for the workspace, a number a query and head, and each gradient that is to be added.
  template <class T>
  bool attend_backward(stream& q, const attention_shape& s, const T* queries, const T* k, const T* v, const T* out,
                       const accumulate_t<T>* sums, const T* dout, T* dq, bool add_dq, T* dk, bool add_dk, T* dv,
                       bool add_dv) {
    using words = elementwise_words<stream>;
    const cudnn_plan* const plan = plan_for<T>(s, true, {queries, k, v, out, dout, dq, dk, dv});
    if (!plan) return false;
    const std::int64_t rows = s.batch * s.heads * s.q_len, of_q = rows * s.head_dim,
                       of_kv = s.batch * s.kv_len * s.kv_heads * s.head_dim;
    struct gradient {
      T* to;
      bool add;
      std::int64_t elements;
      std::size_t at;
      T* made;
    };
    std::array<gradient, 3> all{{{dq, add_dq, of_q}, {dk, add_dk, of_kv}, {dv, add_dv, of_kv}}};
    detail::pieces of_scratch;
    of_scratch.add(plan->workspace);
    const std::size_t at_sums = of_scratch.add(static_cast<std::size_t>(rows) * sizeof *sums);
    for (gradient& d : all) d.at = of_scratch.add(d.add ? static_cast<std::size_t>(d.elements) * sizeof(T) : 0);
    auto* const scratch = static_cast<std::byte*>(q.scratch(of_scratch.bytes()));
    for (gradient& d : all) d.made = d.add ? reinterpret_cast<T*>(scratch + d.at) : d.to;
    auto* const log_sums = reinterpret_cast<accumulate_t<T>*>(scratch + at_sums);
    words::apply(q, binary::add, rows, sums, sums + rows, log_sums);
    const detail::cudnn_arrays arrays{nullptr,  queries, k,           v,           out,
                                      log_sums, dout,    all[0].made, all[1].made, all[2].made};
    detail::run(*plan, handle_.get(), s, arrays, scratch);
    for (const gradient& d : all)
      if (d.add) words::scale(q, d.elements, 1, static_cast<const T*>(d.made), d.to, true);
    return true;
  }

 private:
  // One query of several keys is a text's next token, each of which would want a plan of its own.
  static bool may_take(const attention_shape& s) {
    return !s.documents && s.head_dim % 8 == 0 && s.head_dim <= 256 && s.batch > 0 && s.heads > 0 && s.kv_heads > 0 &&
           s.q_len > (s.kv_len > 1 ? 1 : 0) && s.kv_len > 0 && s.heads % s.kv_heads == 0 &&
           (!s.causal || s.q_len <= s.kv_len) &&
           std::max(s.q_len, s.kv_len) < std::int64_t{1} << 24;  // positions are floats where there is a window
  }
  /// Null where cuDNN doesn't take it; and that is counted.
  template <class T>
  const cudnn_plan* plan_for(const attention_shape& s, bool backward, std::initializer_list<const void*> arrays) {
    bool may = sizeof(T) == 2 && may_take(s);
    for (const void* at : arrays) may = may && reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
    const cudnn_plan* const plan = may ? kept_plan(s, dtype_of<T>, backward) : nullptr;
    if (!plan || !plan->graph) return ++counts_.left, nullptr;
    return ++counts_.taken, plan;
  }
  // Plans stay, since what was queued, or a graph, may have them still; null where there are too many.
  const cudnn_plan* kept_plan(const attention_shape& s, dtype type, bool backward) {
    const detail::cudnn_key key{s.batch,
                                s.q_len,
                                s.kv_len,
                                s.heads,
                                s.kv_heads,
                                s.head_dim,
                                std::bit_cast<std::int64_t>(s.scale),
                                s.causal,
                                s.window,
                                static_cast<int>(type),
                                backward};
    const auto at = plans_.find(key);
    if (at != plans_.end()) return &at->second;
    if (plans_.size() == most_cudnn_plans) return nullptr;
    cudnn_plan made = backward ? detail::plan_attention_backward(handle_.get(), s, type)
                               : detail::plan_attention(handle_.get(), s, type);
    return &plans_.emplace(key, std::move(made)).first->second;
  }

  std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, detail::destroy_cudnn> handle_;
  std::map<detail::cudnn_key, cudnn_plan> plans_;
  cudnn_counts counts_;
};

}  // namespace weft::gpu
