// The words of cross-entropy. Invariant: rows lie `stride` apart (0: n); what is beyond their n columns is padding.
#pragma once

#include <weft/backend/cuda/kernels/cross_entropy.hpp>
#include <weft/backend/cuda/queue.hpp>

namespace weft::gpu {

template <class Queue>
struct loss_words {
  using queue = Queue;

  /// m[row] = the largest of a row's n logits.  // logits [rows, n], m [rows]
  template <class T>
  static void row_max(queue& q, std::int64_t rows, std::int64_t n, const T* logits, accumulate_t<T>* m,
                      std::int64_t stride = 0) {
    if (stride == 0) stride = n;
    block_for_each(q, rows, warp_scratch<Queue, accumulate_t<T>>,
                   row_max_kernel<T>{rows, n, logits, m, stride, packed<T>(stride, logits)});
  }
  /// Sums of exp(logits - m), the targets' logits, and sums of logits - m, which may be null.
  template <class T>
  static void row_sums(queue& q, std::int64_t rows, std::int64_t n, const T* logits, std::int64_t begin,
                       const std::int32_t* targets, const accumulate_t<T>* m, accumulate_t<T>* exps,
                       accumulate_t<T>* logit, accumulate_t<T>* sums = nullptr, std::int64_t stride = 0) {
    if (stride == 0) stride = n;
    block_for_each(
        q, rows, warp_scratch<Queue, accumulate_t<T>>,
        row_sums_kernel<T>{rows, n, logits, begin, targets, m, exps, logit, sums, stride, packed<T>(stride, logits)});
  }
  /// log_sum[row] = log(exps[row]); the sum of the losses of rows whose target isn't negative, and how many they are.
  template <class A>
  static void row_loss(queue& q, std::int64_t rows, const std::int32_t* targets, const A* m, const A* exps,
                       const A* logit, const A* sums, double smoothing, std::int64_t vocab, A* log_sum, A* loss,
                       A* count) {
    q.start(1, warp_scratch<Queue, double>,
            row_loss_kernel<A>{rows, targets, m, exps, logit, sums, smoothing, static_cast<double>(vocab), log_sum,
                               loss, count});
  }
  /// dlogits = (p - (1 - smoothing) * onehot(target) - smoothing / vocab) * g[row]; it may be logits.
  template <class T>
  static void cross_entropy_backward(queue& q, std::int64_t rows, std::int64_t n, const T* logits, std::int64_t begin,
                                     const std::int32_t* targets, const accumulate_t<T>* m,
                                     const accumulate_t<T>* log_sum, const accumulate_t<T>* g, double smoothing,
                                     std::int64_t vocab, T* dlogits, std::int64_t stride = 0) {
    using A = accumulate_t<T>;
    if (stride == 0) stride = n;
    const A everywhere = static_cast<A>(smoothing / static_cast<double>(vocab));
    block_for_each(q, rows, 0,
                   cross_entropy_backward_kernel<T>{rows, n, logits, begin, targets, m, log_sum, g, everywhere,
                                                    static_cast<A>(1 - smoothing), dlogits, stride,
                                                    packed<T>(stride, logits, dlogits)});
  }

 private:
  template <class T>
  static bool packed(std::int64_t stride, const T* x, const T* y = nullptr) {
    return stride % pack_size<T> == 0 && aligned_for_packs(x, y);
  }
};

}  // namespace weft::gpu
