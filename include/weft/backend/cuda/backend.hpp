// The kernels of a device under the names that operators call, over any queue that can start them: a CUDA stream
// (stream.cuh), or a test's stand-in that runs them on the host. Invariant: which kernel runs on which grid is decided
// in words/, in plain C++.
#pragma once

#include <weft/backend/cuda/words/attention.hpp>
#include <weft/backend/cuda/words/elementwise.hpp>
#include <weft/backend/cuda/words/formulas.hpp>
#include <weft/backend/cuda/words/losses.hpp>
#include <weft/backend/cuda/words/memory.hpp>
#include <weft/backend/cuda/words/norms.hpp>
#include <weft/backend/cuda/words/products.hpp>
#include <weft/backend/cuda/words/reductions.hpp>
#include <weft/backend/cuda/words/token_choice.hpp>
#include <weft/backend/cuda/words/training.hpp>

namespace weft::gpu {

/// All words.
template <kernel_queue Queue>
struct device_kernels : memory_words<Queue>,
                        elementwise_words<Queue>,
                        product_words<Queue>,
                        reduction_words<Queue>,
                        norm_words<Queue>,
                        loss_words<Queue>,
                        attention_words<Queue>,
                        training_words<Queue>,
                        choice_words<Queue>,
                        formula_words<Queue> {
  using queue = Queue;
  /// What each_row, each_line and once call neither throws nor takes memory.
  static constexpr bool runs_host_functions = false;
};

}  // namespace weft::gpu
