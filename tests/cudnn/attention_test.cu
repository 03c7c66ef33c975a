// cuDNN's attention against the definition in double, and beside cuda_backend: what it takes, what it leaves, and the
// same bits twice. Needs a GPU; without one the devices on the host stand for it, and a libcudnn.so.9 of the tests.
#include <backend/kernel_testing.hpp>

#include <weft/backend/cudnn.cuh>
#include <weft/testing/backend/attention.hpp>

using namespace weft_test;
using weft::attention_shape;

namespace {
using B = weft::cudnn_backend;
namespace law = weft::testing::detail::kernels;

// The laws hold for these shapes, and cuDNN took so many calls: each is one forward, six backwards.
template <class T, class Backend = B>
void obeys(const std::vector<law::attention_case>& cases, int64 taken, int64 left) {
  try {
    law::bench<Backend> b(1);
    law::attentions<T>(b, cases);
    CHECK(B::counts(b.queue()).taken == taken);
    CHECK(B::counts(b.queue()).left == left);
  } catch (const weft::failure& e) {
    FAIL_CHECK(std::string(e.what()));
  }
}
constexpr int64 each = 7;

}  // namespace

TEST_CASE_TEMPLATE("cuDNN's attention obeys the laws", T, weft::bf16, weft::fp16) {
  obeys<T>({{{2, 7, 7, 3, 3, 8, 0.4, true}},
            {{1, 70, 70, 4, 2, 16, 0.25, true}},
            {{1, 130, 200, 2, 1, 40, 0.15, true}},  // queries behind the keys
            {{2, 65, 31, 2, 2, 32, 0.2, false}},
            {{1, 3, 290, 6, 3, 24, 0.2, true}},
            {{1, 2, 40, 4, 1, 64, 0.12, true}},
            {{1, 100, 100, 4, 2, 16, 0.25, true, 37}},
            {{2, 7, 7, 2, 1, 8, 0.3, true, 1}},
            {{1, 9, 11, 2, 1, 8, 0.3, true, std::numeric_limits<int64>::max()}},
            {{1, 100, 140, 4, 2, 64, 0.12, true, 50}},
            {{1, 64, 129, 2, 2, 128, 0.09, false}},
            {{1, 9, 40, 1, 1, 256, 0.06, false}}},
           12 * each, 0);
  obeys<T>({{{1, 20, 20, 2, 1, 16, 0.25, true}},  // of one queue, each a plan of its own
            {{1, 20, 20, 2, 1, 16, 0.25, false}},
            {{1, 20, 20, 2, 1, 16, 0.5, true}},
            {{1, 20, 20, 2, 1, 16, 0.25, true, 3}},
            {{1, 20, 20, 2, 2, 16, 0.25, true}}},
           5 * each, 0);
}

TEST_CASE_TEMPLATE("what cuDNN doesn't take obeys them too", T, weft::bf16, weft::fp16) {
  obeys<T>({{{1, 1, 1, 1, 1, 1, 1.0, true}},           // a head of 1
            {{2, 7, 7, 3, 3, 20, 0.4, true}},          // that 8 doesn't divide
            {{1, 40, 17, 2, 1, 8, 0.3, true}},         // queries that see no key
            {{1, 1, 40, 4, 1, 64, 0.12, true}},        // a text's next token
            {{2, 9, 9, 2, 1, 8, 0.3, true}, {3, 1}}},  // documents
           0, 5 * each);
  obeys<T>({{{1, 1, 1, 2, 1, 64, 0.1, false}}}, 1, each - 1);  // whose backward cuDNN refuses
}

TEST_CASE_TEMPLATE("other types go to other kernels", T, float, double) {
  obeys<T>({{{1, 9, 9, 2, 1, 8, 0.3, true}}}, 0, each);
}

namespace {

// out, sums and gradients, added to what is there where `add`; whatever `Forward` made is what `Backward` is given.
template <class Forward, class Backward>
std::vector<float> results(const attention_shape& s, bool add) {
  using T = weft::bf16;
  law::bench<B> b(1);
  const int64 of_q = s.batch * s.q_len * s.heads * s.head_dim, of_kv = s.batch * s.kv_len * s.kv_heads * s.head_dim;
  const law::buffer<B, T> q(b, law::numbers<T>(of_q, 1)), k(b, law::numbers<T>(of_kv, 2)),
      v(b, law::numbers<T>(of_kv, 3)), dout(b, law::numbers<T>(of_q, 4)), dq(b, law::numbers<T>(of_q, 5)),
      dk(b, law::numbers<T>(of_kv, 6)), dv(b, law::numbers<T>(of_kv, 7)), out(b, of_q);
  const law::buffer<B, float> sums(b, 2 * s.batch * s.heads * s.q_len);
  Forward::attention(b.queue(), s, q.in(), k.in(), v.in(), out.out(), sums.out());
  Backward::attention_backward(b.queue(), s, q.in(), k.in(), v.in(), out.in(), sums.in(), dout.in(), dq.out(), add,
                               dk.out(), add, dv.out(), add);
  std::vector<float> all;
  for (const auto* x : {&out, &dq, &dk, &dv})
    for (const T y : x->host()) all.push_back(y);
  return all;
}
double apart(const std::vector<float>& a, const std::vector<float>& b) {
  double off = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    off += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(off / size);
}

}  // namespace

TEST_CASE("cuDNN's attention beside cuda_backend's, each forward with each backward") {
  using own = weft::cuda_backend;
  for (const attention_shape& s :
       {attention_shape{2, 70, 90, 4, 2, 64, 0.12, true, 30}, {1, 70, 70, 2, 2, 32, 0.2, true}})
    for (const bool add : {false, true}) {
      const auto want = results<own, own>(s, add), got = results<B, B>(s, add);
      CHECK(apart(got, want) < 0.01);
      CHECK(apart(results<own, B>(s, add), want) < 0.01);
      CHECK(apart(results<B, own>(s, add), want) < 0.01);
      CHECK(got == results<B, B>(s, add));  // the same bits
    }
}

TEST_CASE("arrays that aren't aligned to 16 bytes go to other kernels") {
  law::bench<B> b(1);
  const attention_shape s{1, 4, 4, 1, 1, 8, 0.3, true};
  const law::buffer<B, weft::bf16> x(b, law::numbers<weft::bf16>(40, 1)), out(b, 40);
  const law::buffer<B, float> sums(b, 8);
  const auto attend = [&](const weft::bf16* q) {
    B::attention(b.queue(), s, q, x.in(), x.in(), out.out(), sums.out());
    return B::counts(b.queue()).taken;
  };
  CHECK(attend(x.in()) == 1);
  CHECK(attend(x.in() + 1) == 1);
}

TEST_CASE("a stream keeps so many plans, and other shapes go to other kernels") {
  law::bench<B> b(1);
  const int64 most = static_cast<int64>(weft::gpu::most_cudnn_plans);
  const law::buffer<B, weft::bf16> x(b, law::numbers<weft::bf16>(8 * (most + 3), 1)), out(b, 16);
  const law::buffer<B, float> sums(b, 4);
  const auto attend = [&](int64 keys) {
    B::attention(b.queue(), {1, 2, keys, 1, 1, 8, 0.3, false}, x.in(), x.in(), x.in(), out.out(), sums.out());
  };
  for (int64 keys = 1; keys <= most + 2; ++keys) attend(keys);
  CHECK(B::counts(b.queue()).taken == most);
  CHECK(B::counts(b.queue()).left == 2);
  attend(7);  // one of the first
  attend(most + 1);
  CHECK(B::counts(b.queue()).taken == most + 1);
  CHECK(B::counts(b.queue()).left == 3);
}

TEST_CASE("a call that fails says which, and of what shape") {
  weft::gpu::stream q;
  cudnnHandle_t handle = nullptr;
  REQUIRE(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS);
  const attention_shape s{1, 4, 6, 2, 1, 8, 0.3, true};
  std::string said;
  try {
    const weft::gpu::cudnn_plan plan = weft::gpu::detail::plan_attention(handle, s, weft::dtype::bf16);
    weft::gpu::detail::run(plan, handle, s, {}, nullptr);  // without arrays
  } catch (const weft::failure& e) {
    said = e.what();
  }
  CHECK(said.find("1 x 4 queries and 6 keys, 2 and 1 heads of width 8, causal, window 0: execute failed: ") !=
        std::string::npos);
  cudnnDestroy(handle);
}
