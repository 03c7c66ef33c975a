// Attention and its backward for sm_90a beside the CPU's, and beside the kernels that other GPUs have: over element
// types, head sizes, lengths that don't fill tiles, and grids in which a block has several tiles. Needs a GPU of
// compute capability 9.x; without one the device on the host stands for it.
#include <backend/cuda/attention_warpgroup_trial.hpp>

using namespace weft_test;

TEST_CASE_TEMPLATE("attention by warpgroups is the CPU's, and the other kernels'", T, bf16, fp16) {
  two_blocks q;
  if (!q.has_warpgroups()) return;
  is_the_cpus<T, 64>(q, {1, 150, 300, 2, 1, 64, 0.12, true});
  is_the_cpus<T, 128>(q, {2, 130, 140, 2, 2, 128, 0.09, false});
  if (std::is_same_v<T, fp16>) return;
  is_the_cpus<T, 64>(q, {1, 300, 40, 2, 1, 64, 0.12, true});       // queries that see no key
  is_the_cpus<T, 64>(q, {1, 400, 400, 1, 1, 64, 0.12, true, 70});  // whole tiles behind the window
  is_the_cpus<T, 128>(q, {1, 1, 129, 4, 2, 128, 0.09, true});      // one query, behind the keys
  is_the_cpus<T, 128>(q, {1, 257, 321, 2, 1, 128, 0.09, true});  // tiles that one warpgroup alone sees, between others
  is_the_cpus<T, 64>(q, {1, 384, 448, 1, 1, 64, 0.12, true});
}

TEST_CASE_TEMPLATE("attention's backward by warpgroups is the CPU's, and the other kernels'", T, bf16, fp16) {
  two_blocks q;
  if (!q.has_warpgroups()) return;
  backward_is_the_cpus<T, 64>(q, {1, 150, 300, 2, 1, 64, 0.12, true});
  backward_is_the_cpus<T, 128>(q, {2, 130, 140, 2, 2, 128, 0.09, false});
  if (std::is_same_v<T, fp16>) return;
  backward_is_the_cpus<T, 64>(q, {1, 300, 40, 2, 1, 64, 0.12, true});       // queries that see no key
  backward_is_the_cpus<T, 64>(q, {1, 400, 400, 1, 1, 64, 0.12, true, 70});  // whole tiles behind the window
  backward_is_the_cpus<T, 128>(q, {1, 1, 129, 4, 2, 128, 0.09, true});      // one query, behind the keys
  backward_is_the_cpus<T, 128>(q, {1, 257, 321, 2, 1, 128, 0.09, true});    // tiles that one warpgroup alone sees
  backward_is_the_cpus<T, 64>(q, {1, 70, 70, 2, 1, 64, 0.12, true, 1});     // one key each
}

TEST_CASE("other head sizes and other types go to the other kernels") {
  two_blocks q;
  std::vector<float> sums(8);
  const auto takes = [&]<class T>(attention_shape s, T) {
    bool started = false;
    const auto ask = [&](const T* queries, const T* k, const T* v, T* out, float* of_sums) {
      if constexpr (std::is_same_v<T, float>)
        started = weft::gpu::attend_by_warpgroups(q, s, queries, k, v, out, of_sums);
      else
        started = weft::gpu::attend_by_warpgroups(q, s, queries, k, v, out, of_sums);
      if (!started) q.zero(out, 4 * 128 * sizeof(T)), q.zero(of_sums, 8 * sizeof(float));
    };
    const attention_shape sizes{1, 4, 4, 1, 1, 128, 0.1, true};
    on_gpu<T>(q, sizes, ask);
    return started;
  };
  const attention_shape s{1, 4, 4, 1, 1, 64, 0.1, true};
  attention_shape other = s;
  other.head_dim = 96;
  CHECK_FALSE(takes(other, bf16()));
  CHECK_FALSE(takes(s, 1.0f));
}
