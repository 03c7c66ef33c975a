// Attention and its backward for sm_90a over documents that lie one behind the other in a sequence, beside the CPU's,
// and beside the kernels that other GPUs have. Needs a GPU of compute capability 9.x; without one the device on the
// host stands for it.
#include <backend/cuda/attention_warpgroup_trial.hpp>

using namespace weft_test;

namespace {

// f<D>(shape, starts) for the ways in which documents lie in tiles.
template <class F>
void each_packing(bool all, F f) {
  // Uneven, of one token, and one that spans tiles; several heads read the same keys.
  f.template operator()<64>(attention_shape{1, 330, 330, 2, 1, 64, 0.12, true},
                            starts_of(330, {{0, 1, 2, 39, 64, 100, 300, 329}}));
  // Another in each row of the batch, the first of which is one document.
  f.template operator()<128>(attention_shape{2, 200, 200, 2, 2, 128, 0.09, true},
                             starts_of(200, {{0}, {0, 70, 71, 128}}));
  if (!all) return;
  f.template operator()<64>(attention_shape{1, 390, 390, 1, 1, 64, 0.12, true},  // whole tiles behind a border
                            starts_of(390, {{0, 130, 260, 388}}));
  f.template operator()<64>(attention_shape{1, 300, 300, 1, 1, 64, 0.12, true, 50},  // and behind the window
                            starts_of(300, {{0, 20, 128, 190}}));
  f.template operator()<128>(attention_shape{1, 140, 270, 4, 2, 128, 0.09, true},  // queries behind the keys
                             starts_of(140, {{0, 40, 131, 200, 269}}));
  std::vector<std::int32_t> ones(130);  // a document for each token, so that nothing moves a score
  for (std::size_t i = 0; i < ones.size(); ++i) ones[i] = static_cast<std::int32_t>(i);
  f.template operator()<64>(attention_shape{1, 130, 130, 1, 1, 64, 0.12, true}, ones);
  std::vector<std::int32_t> beyond(129);  // the last begins behind its query, which sees its own key all the same
  beyond.back() = 500;
  f.template operator()<64>(attention_shape{1, 129, 129, 1, 1, 64, 0.12, true}, beyond);
}

}  // namespace

TEST_CASE_TEMPLATE("documents end what attention by warpgroups sees", T, bf16, fp16) {
  two_blocks q;
  if (!q.has_warpgroups()) return;
  each_packing(std::is_same_v<T, bf16>,
               [&]<int D>(const auto& s, const auto& starts) { is_the_cpus<T, D, true>(q, s, starts); });
}

TEST_CASE_TEMPLATE("documents end what attention's backward by warpgroups sees", T, bf16, fp16) {
  two_blocks q;
  if (!q.has_warpgroups()) return;
  each_packing(std::is_same_v<T, bf16>,
               [&]<int D>(const auto& s, const auto& starts) { backward_is_the_cpus<T, D, true>(q, s, starts); });
}
