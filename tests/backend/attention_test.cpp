// Attention's gradients against finite differences, NaN, and what is refused. Against the definition:
// attention_law_test.cpp.
#include <weft/backend/cpu/attention_backward.hpp>

#include "kernel_testing.hpp"

using namespace weft_test;
using weft::attention_shape;

namespace {

int64 q_size(const attention_shape& s) { return s.batch * s.q_len * s.heads * s.head_dim; }
int64 kv_size(const attention_shape& s) { return s.batch * s.kv_len * s.kv_heads * s.head_dim; }

}  // namespace

TEST_CASE("attention gradients agree with finite differences") {
  const attention_shape s{1, 6, 8, 4, 2, 5, 0.4, true};
  std::vector<double> in[3] = {numbers<double>(q_size(s), 7), numbers<double>(kv_size(s), 8),
                               numbers<double>(kv_size(s), 9)};
  const auto dout = numbers<double>(q_size(s), 10);
  team t;
  std::vector<double> out(in[0].size()), sums(48), grad[3] = {in[0], in[1], in[2]};
  const auto loss = [&] {
    std::vector<double> y(out.size()), l(48);
    weft::cpu::attention(t, s, in[0].data(), in[1].data(), in[2].data(), y.data(), l.data());
    double total = 0;
    for (std::size_t i = 0; i < y.size(); ++i) total += y[i] * dout[i];
    return total;
  };
  weft::cpu::attention(t, s, in[0].data(), in[1].data(), in[2].data(), out.data(), sums.data());
  weft::cpu::attention_backward(t, s, in[0].data(), in[1].data(), in[2].data(), out.data(), sums.data(), dout.data(),
                                grad[0].data(), false, grad[1].data(), false, grad[2].data(), false);
  for (int which = 0; which < 3; ++which) {
    doubles slope;
    for (double& x : in[which]) {
      const double middle = x;
      x = middle + 1e-5;
      const double up = loss();
      x = middle - 1e-5;
      slope.push_back((up - loss()) / 2e-5);
      x = middle;
    }
    check_close(grad[which], slope, 1e-8, 1e-8);  // 1e-10 of truncation, 1e-14 / 1e-5 of rounding
  }
}

TEST_CASE("attention passes NaN on and refuses heads that do not divide") {
  attention_shape s{1, 2, 2, 1, 1, 4, 1.0, true};
  std::vector<float> q(8, 1.0f), k(8, 1.0f), v(8, 1.0f), out(8), sums(4);
  k[4] = NAN;  // key 1, seen by query 1 only
  team t;
  weft::cpu::attention(t, s, q.data(), k.data(), v.data(), out.data(), sums.data());
  CHECK(out[0] == 1);
  CHECK(std::isnan(out[4]));
  s.heads = 3, s.kv_heads = 2;
  CHECK_THROWS_AS(weft::cpu::attention(t, s, q.data(), k.data(), v.data(), out.data(), sums.data()), weft::failure);
}
