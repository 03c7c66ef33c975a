// The words of tokens and of training: embedding, rotary positions, dropout, AdamW, and what is done once.
// Invariant: no atomics; the gradient of a table is summed in the order of the batch.
#pragma once

#include <bit>
#include <cmath>
#include <vector>

#include <weft/backend/cuda/kernels/adamw.hpp>
#include <weft/backend/cuda/kernels/dequantise.hpp>
#include <weft/backend/cuda/kernels/dropout.hpp>
#include <weft/backend/cuda/kernels/embedding.hpp>
#include <weft/backend/cuda/kernels/rope.hpp>
#include <weft/backend/cuda/queue.hpp>
#include <weft/backend/initial_values.hpp>

namespace weft::gpu {

template <class Queue>
struct training_words {
  using queue = Queue;

  /// y[row] = table[ids[row] - begin], zeros for an id outside of [begin, begin + count).
  template <class T>
  static void embedding(queue& q, std::int64_t rows, std::int64_t width, const std::int32_t* ids, std::int64_t begin,
                        std::int64_t count, const T* table, T* y) {
    const bool packed = width % pack_size<T> == 0 && aligned_for_packs(table, y);
    over_elements<T>(q, rows * width, embedding_kernel<T>{rows, width, ids, begin, count, table, y, packed});
  }
  /// dtable[ids[row] - begin] += dy[row]; dtable becomes zero first unless `add`.
  template <class T, class G>
  static void embedding_backward(queue& q, std::int64_t rows, std::int64_t width, const std::int32_t* ids,
                                 std::int64_t begin, std::int64_t count, const T* dy, G* dtable, bool add) {
    if (!add) q.zero(dtable, static_cast<std::size_t>(count * width) * sizeof(G));
    if (rows == 0) return;
    const std::uint64_t* const keys = sorted_rows(q, rows, ids, begin, count);
    warp_for_each(q, rows * ((width + warp_size - 1) / warp_size),
                  embedding_backward_kernel<T, G>{rows, width, keys, count, dy, dtable});
  }

  /// y (+)= x turned; x, y [batch, seq, heads, head_dim]; cos, sin [positions, head_dim / 2].
  template <class T>
  static void rope(queue& q, std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t head_dim,
                   const T* x, const accumulate_t<T>* cos, const accumulate_t<T>* sin, std::int64_t first, bool inverse,
                   T* y, bool add) {
    require(head_dim % 2 == 0, "rope pairs the two halves of a head, so head_dim must be even, not ", head_dim, ".");
    const int64 half = head_dim / 2;
    using kernel = rope_kernel<T>;
    const bool packed = half % kernel::together == 0 && aligned_for_packs(x, y, cos, sin);
    const auto direction = static_cast<accumulate_t<T>>(inverse ? -1 : 1);
    over_elements<T>(q, batch * seq * heads * half,
                     kernel{batch, seq, heads, half, x, cos, sin, first, direction, y, add, packed}, kernel::together);
  }

  /// y (+)= x / (1 - rate) where an element is kept, else 0 * x. Throws unless 0 <= rate < 1.
  template <class T>
  static void dropout(queue& q, const dropout_mask& mask, const placed_slice& at, const T* x, T* y, bool add) {
    require(mask.rate >= 0 && mask.rate < 1, "a dropout rate is from 0 to below 1, not ", mask.rate);
    placed_slice all = at;  // padding has numbers, too
    int64 n = 1;
    bool in_order = true;  // all but the first dimension that isn't 1 are whole
    for (int d = 0; d < at.ndim; ++d) {
      in_order = in_order && (n == 1 || at.local[d] == at.global[d]);
      n *= at.local[d], all.valid[d] = at.local[d];
    }
    const int64 first = n > 0 ? all.global_index(0) : 0;
    const auto threshold = static_cast<std::uint32_t>(mask.rate * 0x1p32);
    const auto factor = static_cast<accumulate_t<T>>(1 / (1 - mask.rate));
    const auto start = [&]<bool In_fours>(std::bool_constant<In_fours>) {
      using kernel = dropout_kernel<T, In_fours>;
      over_elements<T>(q, n,
                       kernel{n, in_order, first, all, philox{mask.seed, mask.stream}, threshold, factor, x, y, add,
                              aligned_for_packs(x, y)},
                       kernel::together);
    };
    if (in_order && first % 4 == 0)
      start(std::true_type());
    else
      start(std::false_type());
  }

  /// y[i] = what the codes stand for; 0 in the slice's padding.
  template <class T>
  static void dequantise(queue& q, const quantised_slice& from, T* y) {
    const auto start = [&]<class At>(const At& at) {
      using kernel = dequantise_kernel<T, At>;
      over_elements<T>(q, from.count,
                       kernel{at, from.format, from.row, from.first, from.count, from.codes, from.levels, from.scales,
                              y, aligned_for_packs(y) && kernel::loads_packs_of(from.codes, from.format)},
                       kernel::together);
    };
    slice_lines lines;
    if (lines.fits(from.at))
      start(lines);
    else
      start(from.at);
  }

  /// One step of AdamW, with weight decay where `decaying` has the element; `working` gets the new weights rounded, and
  /// may be null or the master.
  template <class M, class G, class W>
  static void adamw(queue& q, const adamw_step& step, std::int64_t n, const decay_ranges& decaying, M* master, M* first,
                    M* second, const G* g, W* working) {
    static_assert(std::is_same_v<M, accumulate_t<G>> && std::is_same_v<M, accumulate_t<W>>,
                  "adamw: master weights are float, or double if gradient and working copy are double too");
    over_elements<M>(
        q, n,
        adamw_kernel<M, G, W>{{n, step.grad_scale, rule_of<M>(step), decaying, master, first, second, g, working,
                               aligned_for_packs(master, first, second) && aligned_for_packs(g, working)}});
  }
  /// The same with moments of bf16, rounded stochastically.
  template <class G, class W>
  static void adamw(queue& q, const adamw_step& step, std::int64_t n, const decay_ranges& decaying, float* master,
                    bf16* first, bf16* second, const G* g, W* working, const rounding_ranges& rounding) {
    static_assert(!std::is_same_v<G, double> && !std::is_same_v<W, double>, "adamw: moments of bf16 go with float");
    over_elements<float>(
        q, n,
        adamw_rounded_kernel<G, W>{
            {n, step.grad_scale, rule_of<float>(step), decaying, master, first, second, g, working,
             aligned_for_packs(master, first, second, g, working) && rounding.begin_at_multiples_of(pack_size<float>)},
            rounding});
  }

  /// y[i] = mean + deviation * the standard normal number at the global index of a slice's element first + i: made on
  /// the host, a piece at a time.
  template <class T>
  static void normal(queue& q, const placed_slice& at, std::int64_t first, std::int64_t count, double mean,
                     double deviation, const philox& numbers, T* y) {
    constexpr int64 most = int64{1} << 20;
    std::vector<T> piece(static_cast<std::size_t>(std::min(count, most)));
    for (int64 begin = 0; begin < count; begin += most) {
      const int64 n = std::min(count - begin, most);
      weft::detail::initial_values(at, first + begin, n, mean, deviation, numbers, piece.data());
      q.upload(piece.data(), y + begin, static_cast<std::size_t>(n) * sizeof(T));
    }
  }

  /// f(), once: what is computed of a few numbers. f can be called where the kernels run.
  template <class F>
  static void once(queue& q, const F& f) {
    q.start(1, 0, once_kernel<F>{f});
  }

 private:
  template <class M>
  static adamw_rule<M> rule_of(const adamw_step& s) {
    const auto number = [](double x) { return static_cast<M>(x); };
    return {number(s.beta1),        number(s.beta2),
            number(1 - s.beta1),    number(1 - s.beta2),
            number(s.lr / s.bias1), number(1 / std::sqrt(s.bias2)),
            number(s.eps),          number(s.lr * s.weight_decay)};
  }
  // Rows by the id's place in the table, those of one id in the order of the batch; in the queue's scratch.
  static const std::uint64_t* sorted_rows(queue& q, int64 rows, const std::int32_t* ids, int64 begin, int64 count) {
    constexpr int first = row_keys_kernel::row_bits;
    const key_bits by{first, first + std::max(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count))), 1)};
    const std::size_t beside = q.template sort_bytes<std::uint64_t>(rows, by);
    const auto each = static_cast<std::size_t>((rows + 31) / 32 * 32);  // so that all of it is aligned
    auto* const keys = static_cast<std::uint64_t*>(q.scratch(2 * each * sizeof(std::uint64_t) + beside));
    over_elements<std::uint64_t>(q, rows, row_keys_kernel{rows, ids, begin, count, keys}, 1);
    q.sort(keys, keys + each, rows, by, keys + 2 * each, beside);
    return keys + each;
  }
};

}  // namespace weft::gpu
