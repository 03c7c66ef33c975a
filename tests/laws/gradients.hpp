// gradients<X...>(what, f): finite differences for f(x...), by weft/testing/gradients.hpp.
#pragma once

#include <weft/testing/gradients.hpp>

#include "ranks.hpp"

namespace laws {

using namespace weft;  // NOLINT: test code, read beside the library
namespace detail = weft::testing::detail;

/// Checks f's value and gradients for inputs of types Xs on all meshes, against one rank and finite differences.
template <any_tensor... Xs, class F>
void gradients(const char* what, F f, options o = {}) {
  differences_agree(gradient_problem<Xs...>(what, f, o));
}

/// Tensors of doubles, for short.
template <class Dims, class... Placements>
using real = tensor<double, Dims, Placements...>;

}  // namespace laws
