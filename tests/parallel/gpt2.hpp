// A small GPT-2 on meshes of every kind, with dropout, against one rank.
#pragma once

#include "parallel/equals_serial.hpp"

namespace weft_test {

inline const weft::gpt2_config small_gpt2{.layers = 2, .hidden = 32, .heads = 4, .vocab = 48, .max_seq = 16, .dropout = 0.2};

/// Takes the key biases' gradients out. Adding the same to all keys adds the same to all of a query's logits, which softmax doesn't
/// see: the gradient is zero but for rounding, and is held against the gradient of the weight beside it.
inline outcome without_key_biases(outcome o, double tolerance) {
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

/// Strategy on meshes of two to eight ranks (on some of them where tests are sampled).
template <class Strategy>
void check_gpt2(const outcome& serial, double loss, double gradient, const plan& p) {
  constexpr weft::degrees meshes[] = {{.dp = 2, .tp = 2}, {.tp = 4}, {.dp = 2}, {.tp = 2}, {.dp = 2, .tp = 4}, {.dp = 4}};
  for (std::size_t i = 0; i < std::size(meshes); i += std::size_t(sample_stride())) {
    CAPTURE(meshes[i].dp);
    CAPTURE(meshes[i].tp);
    check_equal(serial, without_key_biases(train_model<weft::gpt2<Strategy>>(meshes[i], small_gpt2, p), gradient), loss, gradient);
  }
}

/// One rank's outcome, and under it every strategy with and without recomputation.
template <class Precision, class... Policies>
void check_gpt2_meshes(double loss, double gradient) {
  using namespace weft;
  const plan p{.batch = 4, .steps = 4, .micro_batches = 2};
  const auto serial = without_key_biases(train_model<gpt2<strategy<mesh<dp, tp>, Precision>>>({}, small_gpt2, p), gradient);
  REQUIRE(serial.losses.back() < serial.losses.front());
  check_gpt2<strategy<mesh<dp, tp>, Precision, Policies...>>(serial, loss, gradient, p);
  check_gpt2<strategy<mesh<dp, tp>, Precision, checkpoint_full, Policies...>>(serial, loss, gradient, p);
}

}  // namespace weft_test
