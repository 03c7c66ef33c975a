// AdamW, several steps, against the formula of Loshchilov & Hutter in double.
#include <weft/backend/cpu/adamw.hpp>

#include "kernel_testing.hpp"

using namespace testing;

namespace {

template <class M, class G, class W>
void test_adamw(bool with_copy) {
  for (const int64 n : {1, 29, 40001}) {
    const auto start = numbers<M>(n, 1);
    doubles w = widened(start), m(w.size()), v(w.size());
    const double lr = 1e-2, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, decay = 0.1, scale = 0.5;
    const int steps = 3;
    std::vector<std::vector<G>> gradients;
    for (int t = 1; t <= steps; ++t) {
      gradients.push_back(numbers<G>(n, static_cast<std::uint64_t>(10 + t)));
      for (std::size_t i = 0; i < w.size(); ++i) {
        const double g = static_cast<double>(gradients.back()[i]) * scale;
        m[i] = beta1 * m[i] + (1 - beta1) * g;
        v[i] = beta2 * v[i] + (1 - beta2) * g * g;
        w[i] -=
            lr * (m[i] / (1 - std::pow(beta1, t)) / (std::sqrt(v[i] / (1 - std::pow(beta2, t))) + eps) + decay * w[i]);
      }
    }
    on_every_isa([&](team& team) {
      std::vector<M> master = start, gm(start.size()), gv(start.size());
      std::vector<W> copy(start.size());
      for (int t = 1; t <= steps; ++t) {
        const weft::adamw_step step{lr,   beta1, beta2, eps, decay, 1 - std::pow(beta1, t), 1 - std::pow(beta2, t),
                                    scale};
        weft::cpu::adamw(team, step, n, master.data(), gm.data(), gv.data(),
                         gradients[static_cast<std::size_t>(t - 1)].data(), with_copy ? copy.data() : nullptr);
      }
      // About ten roundings a step. m may cancel (absolute); the update is lr * (at most 1.7) with the error of m.
      check_close(gm, m, 30 * sum_rounding<M>, 10 * sum_rounding<M>);
      check_close(gv, v, 30 * sum_rounding<M>, 0);
      check_close(master, w, 10 * sum_rounding<M>, 10 * sum_rounding<M>);
      if (with_copy) {
        doubles rounded;
        for (const M x : master) rounded.push_back(static_cast<double>(make<W>(static_cast<double>(x))));
        check_close(copy, rounded, 0, 1e-300);  // the working copy is the master, rounded once
      }
      return master;
    });
  }
}

}  // namespace

TEST_CASE("adamw") {
  test_adamw<float, float, float>(true);
  test_adamw<float, float, bf16>(true);
  test_adamw<float, bf16, bf16>(true);
  test_adamw<float, fp16, fp16>(false);
  test_adamw<double, double, double>(true);
}

TEST_CASE("adamw with the working copy being the master") {
  team t;
  auto a = numbers<float>(100, 3), b = a;
  const auto g = numbers<float>(100, 4);
  std::vector<float> m1(100), v1(100), m2(100), v2(100);
  const weft::adamw_step step{1e-3, 0.9, 0.99, 1e-8, 0.01, 0.1, 0.01, 1};
  weft::cpu::adamw(t, step, 100, a.data(), m1.data(), v1.data(), g.data(), a.data());
  weft::cpu::adamw<float, float, float>(t, step, 100, b.data(), m2.data(), v2.data(), g.data(), nullptr);
  CHECK(same_bits(a, b));
}
