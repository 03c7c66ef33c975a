// expect: weft: a law compares gradients with differences, for which only double has digits enough: give it tensors of double; other types have the same formula
#include <weft/testing/laws.hpp>
#include <weft/weft.hpp>

using namespace weft;

int main() {
#ifdef WRONG
  testing::check_gradients<tensor<float, dims<batch, hidden>>>("square", [](const auto& x) { return square(x); });
#else
  testing::check_gradients<tensor<double, dims<batch, hidden>>>("square", [](const auto& x) { return square(x); });
#endif
}
