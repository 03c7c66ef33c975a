// The gated unit in place: outputs may be the inputs. What it computes is tried in elementwise_law_test.cpp.
#include <weft/backend/cpu/swiglu.hpp>

#include "kernel_testing.hpp"

using namespace weft_test;

TEST_CASE_TEMPLATE("swiglu's gradients in place of its inputs", T, double, float, bf16, fp16) {
  for (const int64 n : {1, 33, 20011}) {
    const auto gate = numbers<T>(n, 1, -10, 10), up = numbers<T>(n, 2), dy = numbers<T>(n, 3);
    on_every_isa([&](team& t) {
      std::vector<T> a(gate.size()), b(gate.size()), in_gate = gate, in_up = up;
      weft::cpu::swiglu_backward(t, n, gate.data(), up.data(), dy.data(), a.data(), false, b.data(), false);
      weft::cpu::swiglu_backward(t, n, in_gate.data(), in_up.data(), dy.data(), in_gate.data(), false, in_up.data(),
                                 false);
      CHECK(same_bits(in_gate, a));
      CHECK(same_bits(in_up, b));
      return a;
    });
  }
}
