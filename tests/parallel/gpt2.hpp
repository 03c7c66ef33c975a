// A small GPT-2 with dropout, and what of its gradients can be compared. The matrix trains it on every mesh.
#pragma once

#include "parallel/equals_serial.hpp"

namespace weft_test {

inline const weft::gpt2_config small_gpt2{
    .layers = 2, .hidden = 32, .heads = 4, .vocab = 48, .max_seq = 16, .dropout = 0.2};

/// Takes the key biases' gradients out. Adding the same to all keys adds the same to all of a query's logits, which
/// softmax doesn't see: the gradient is zero but for rounding, and is held against the gradient of the weight beside
/// it.
inline output without_key_biases(output o, double tolerance) {
  const auto largest = [](const std::vector<double>& x) {
    double most = 0;
    for (const double v : x) most = std::abs(v) <= most ? most : std::abs(v);
    return most;
  };
  for (int layer = 0;; ++layer) {
    const std::string key = "layers." + std::to_string(layer) + ".key";
    if (!o.gradients.count(key)) break;
    CHECK(largest(o.gradients.at(key + "_bias")) <= tolerance * largest(o.gradients.at(key)));
    o.gradients.erase(key + "_bias");
  }
  return o;
}

}  // namespace weft_test
