// Schedules beside the default, one_f_one_b. Times are those of one micro-batch through all of a rank's layers: F
// forward, B the backward's inputs, W its weights; p ranks, M micro-batches. Idle is what a rank waits between its
// first action and its last, at most of all ranks. Invariant: each is a schedule_policy like one of a user's own.
#pragma once

#include <algorithm>

#include <weft/policy/schedule.hpp>

namespace weft {

/// All forwards, then all backwards (Huang et al. 2019). Idle: (p - 1)(F + B + W), as one_f_one_b, with the activations
/// of all M micro-batches on every rank.
struct gpipe {
  static constexpr std::string_view name = "gpipe";

  template <class Emit>
  static constexpr void order(int /*rank*/, int /*ranks*/, int micro_batches, Emit&& emit) {
    using enum pipeline_action::kind;
    for (int m = 0; m < micro_batches; ++m) emit(pipeline_action{forward, m});
    for (int m = 0; m < micro_batches; ++m) emit(pipeline_action{backward, m});
  }
};

/// One forward, one backward, on ranks with `Chunks` chunks of layers each, chunk c of rank r being virtual stage r + c
/// p (Narayanan et al. 2021). Micro-batches go through a rank's chunks in groups of p, so M is a multiple of p. Idle:
/// (p - 1)(F + B + W) / Chunks. Activations: at most 1 + (p - 1) / (p Chunks) times those of one_f_one_b. Sends Chunks
/// times as much.
template <int Chunks = 2>
struct interleaved {
  static_assert(Chunks >= 1, "weft: interleaved<chunks> gives a rank at least 1 chunk");
  static constexpr std::string_view name = "interleaved";
  static constexpr int chunks = Chunks;

  static constexpr std::string_view asks(int ranks, int micro_batches) {
    return micro_batches % ranks == 0 ? "" : "as many micro-batches as pp has ranks, or a multiple of that";
  }
  template <class Emit>
  static constexpr void order(int rank, int ranks, int micro_batches, Emit&& emit) {
    using enum pipeline_action::kind;
    const int all = micro_batches * Chunks, ahead = std::min(all, 2 * (ranks - rank - 1) + (Chunks - 1) * ranks);
    const auto nth = [&](pipeline_action::kind what, int n) {
      const int group = n / (ranks * Chunks), within = n % (ranks * Chunks), chunk = within / ranks;
      return pipeline_action{what, group * ranks + within % ranks, what == forward ? chunk : Chunks - 1 - chunk};
    };
    for (int n = 0; n < all + ahead; ++n) {
      if (n < all) emit(nth(forward, n));
      if (n >= ahead) emit(nth(backward, n - ahead));
    }
  }
};

/// One forward, one backward, with the gradients of weights put off (ZB-H1, Qi et al. 2023): rank r computes those of r
/// micro-batches later, in the time that it would wait at the step's end. Idle: (p - 1)(F + B - W). In flight as many
/// micro-batches as one_f_one_b has at most, p, on every rank; those between a backward's two parts keep their
/// gradients of activations too.
struct zb_h1 {
  static constexpr std::string_view name = "zb_h1";

  template <class Emit>
  static constexpr void order(int rank, int ranks, int micro_batches, Emit&& emit) {
    using enum pipeline_action::kind;
    const int ahead = ranks - rank - 1;
    int weights = 0;  // micro-batches whose weights' gradients were computed, never more than first parts of backwards
    for (int m = 0; m < micro_batches + ahead; ++m) {
      if (m < micro_batches) emit(pipeline_action{forward, m});
      if (m < ahead) continue;
      if (rank == 0) {  // nobody waits for its first part
        emit(pipeline_action{backward, m - ahead});
        continue;
      }
      emit(pipeline_action{backward_inputs, m - ahead});
      if (m - ahead >= rank) emit(pipeline_action{backward_weights, weights++});
    }
    while (rank > 0 && weights < micro_batches) emit(pipeline_action{backward_weights, weights++});
  }
};

/// Two chunks a rank in the shape of a V, virtual stages r and 2 p - 1 - r, backwards in two parts (ZBV, Qi et al.
/// 2024). Idle: none where F = B = W. In flight at most p micro-batches' worth on every rank, as one_f_one_b's first.
/// The first rank has the embedding and the head, so tied embeddings need no copy; it holds the logits too.
struct zbv {
  static constexpr std::string_view name = "zbv";
  static constexpr int chunks = 2;

  static constexpr int stage_of(int rank, int ranks, int chunk) { return chunk == 0 ? rank : 2 * ranks - 1 - rank; }

  template <class Emit>
  static constexpr void order(int rank, int ranks, int micro_batches, Emit&& emit) {
    using enum pipeline_action::kind;
    // Of each chunk, so far; of a micro-batch the forward is first, then the inputs' gradients, then the weights'.
    struct counts {
      int forwards = 0, inputs = 0, weights = 0;
    } done[2];
    // The order is that of at least 2 p - 1 micro-batches, of which a shorter step leaves out the last.
    const int whole = std::max(micro_batches, 2 * ranks - 1);
    const auto next = [&](pipeline_action::kind what, int chunk) {
      counts& c = done[chunk];
      const int m = what == forward ? c.forwards++ : what == backward_inputs ? c.inputs++ : c.weights++;
      if (m < micro_batches) emit(pipeline_action{what, m, chunk});
    };
    const auto back = [&](int chunk) { next(backward_inputs, chunk), next(backward_weights, chunk); };
    for (int i = 0; i < 2 * (ranks - rank) - 1; ++i) next(forward, 0);
    for (int i = 0; i < rank; ++i) next(forward, 1), next(forward, 0);
    for (int i = 0; i < ranks - rank; ++i) next(forward, 1), back(1);
    while (done[1].forwards < done[0].forwards || done[0].forwards < whole) {
      if (done[0].forwards < whole) next(forward, 0);
      back(0);
      next(forward, 1), back(1);
    }
    for (int i = 0; i < rank; ++i) next(backward_inputs, 0), next(backward_inputs, 1);
    for (int i = 0; i < ranks - rank; ++i) back(0);
    while (done[1].weights < done[1].inputs) next(backward_weights, 1);
    while (done[0].weights < done[0].inputs) next(backward_weights, 0);
  }
};

/// Two chunks a rank in the shape of a V, and in the step's middle forwards that go together with backwards (DualPipeV,
/// DeepSeek 2025): for models whose ranks wait for messages in the middle of a layer, as experts' do. Idle: (p - 1) F /
/// 2 where F = B = W and M is at least 2 p, if a pair takes as long as its two parts one after the other;
/// parallel/pipeline.hpp runs them so. In flight at most p + 1/2 micro-batches' worth on every rank.
struct dual_pipe_v {
  static constexpr std::string_view name = "dual_pipe_v";
  static constexpr int chunks = 2;

  static constexpr int stage_of(int rank, int ranks, int chunk) { return zbv::stage_of(rank, ranks, chunk); }

  template <class Emit>
  static constexpr void order(int rank, int ranks, int micro_batches, Emit&& emit) {
    using enum pipeline_action::kind;
    // Of each chunk, so far, whole backwards and first parts as one; a micro-batch's weights come after its backward.
    struct counts {
      int forwards = 0, backwards = 0, weights = 0;
    } done[2];
    // The order is that of at least 2 p micro-batches, of which a shorter step leaves out the last.
    const int whole = std::max(micro_batches, 2 * ranks), behind = ranks - rank - 1;
    const auto next = [&](pipeline_action::kind what, int chunk, bool with_next = false) {
      counts& c = done[chunk];
      const int m = what == forward ? c.forwards++ : what == backward_weights ? c.weights++ : c.backwards++;
      c.weights += what == backward;
      if (m < micro_batches) emit(pipeline_action{what, m, chunk, with_next});
    };
    const auto together = [&](int ahead, int back) {
      next(forward, ahead, done[ahead].forwards < micro_batches && done[back].backwards < micro_batches);
      next(backward, back);
    };
    for (int i = 0; i < 2 * behind; ++i) next(forward, 0);
    for (int i = 0; i <= rank; ++i) next(forward, 0), next(forward, 1);
    for (int i = 0; i < behind; ++i) next(backward_inputs, 1), next(backward_weights, 1), next(forward, 1);
    for (int i = 0; i < whole - 2 * ranks + rank + 1; ++i) {
      if (i == 0 && behind == 0)
        next(forward, 0), next(backward, 1);  // of one micro-batch
      else
        together(0, 1);
      together(1, 0);
    }
    for (int i = 0; i < behind; ++i) next(backward, 1), together(1, 0);
    // From here on the gradients of weights are put off, in the chunks' turns, to fill what ranks would wait.
    const int first = 2 * ((rank + 1) / 2) + (rank + 1) % 2, in_turns = 2 * (rank + 1) - first;
    for (int i = 0; i < 2 * (rank + 1); ++i) next(i < first ? backward : backward_inputs, 1 - i % 2);
    int later = 0;
    const auto put_off = [&] { next(backward_weights, later < in_turns ? 1 - (first + later) % 2 : 0), ++later; };
    for (int i = 0; i < behind; ++i) put_off(), next(backward_inputs, 0);
    for (int i = 0; i <= rank; ++i) put_off();
  }
};

}  // namespace weft
