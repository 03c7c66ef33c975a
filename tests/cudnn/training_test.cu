// A Llama trained with cuDNN's attention beside the CPU's (beside_cpu.hpp), and by graphs beside itself
// (as_graphs.hpp). Needs a GPU, or what stands for one, as attention_test.cu.
#include <train/as_graphs.hpp>
#include <train/beside_cpu.hpp>

#include <weft/backend/cudnn.cuh>

namespace {
using namespace weft;
using namespace weft_test;

// That cuDNN takes all of its attention.
struct all_by_cudnn : cudnn_backend {
  template <class T>
  static void attention(queue& q, const attention_shape& s, const T* queries, const T* k, const T* v, T* out,
                        accumulate_t<T>* sums) {
    cudnn_backend::attention(q, s, queries, k, v, out, sums);
    require(counts(q).left == 0, "cuDNN left a forward");
  }
  template <class T, class... Rest>
  static void attention_backward(queue& q, const attention_shape& s, const T* queries, Rest... rest) {
    cudnn_backend::attention_backward(q, s, queries, rest...);
    require(counts(q).left == 0, "cuDNN left a backward");
  }
};
const llama_config of_small_heads{
    .layers = 2, .hidden = 64, .heads = 4, .kv_heads = 2, .ffn = 64, .vocab = 256, .max_seq = 32};

TEST_CASE("cuDNN: a Llama in bf16, selective recomputation") {
  check_beside_cpu<all_by_cudnn, llama, bf16_mixed, checkpoint_selective>(of_small_heads, of_16_bits);
}

TEST_CASE("cuDNN: a Llama whose steps are graphs") {
  check_as_graphs<llama<strategy<mesh<dp>, bf16_mixed, checkpoint_selective, all_by_cudnn>>>(of_small_heads);
}

}  // namespace
