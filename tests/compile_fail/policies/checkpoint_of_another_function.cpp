// expect: weft: checkpoint(f, x)
// expect 1: weft: checkpoint(f, x): f gives back one tensor, and no number, loss{...} or nothing: let it return the tensor that these are made from
// expect 2: weft: checkpoint(f, x): f gives back one tensor
// expect 3: weft: checkpoint(f, x): f gives back one tensor
// expect 4: weft: checkpoint(f, x) takes a function of one tensor, and that tensor: let f capture the others by value
// expect 5: weft: checkpoint(f, x) calls f(x), and f doesn't take this x: write it as [=](const auto& x) { return ...; }
// expect 6: weft: checkpoint(f, x) takes a function of one tensor
#include <weft/weft.hpp>
using namespace weft;

auto program(const tensor<float, dims<batch, hidden>>& x, const tensor<float, dims<batch, hidden>>& y) {
#ifdef WRONG
#if WRONG == 1
  checkpoint([](const auto& h) { return loss{sum(h), sum(h)}; }, x);
#elif WRONG == 2
  checkpoint([](const auto& h) { return item(sum(h)); }, x);
#elif WRONG == 3
  checkpoint([](const auto& h) { sum(h); }, x);
#elif WRONG == 4
  checkpoint([](const auto& a, const auto& b) { return a * b; }, x, y);
#elif WRONG == 5
  checkpoint([](int h) { return h; }, x);
#elif WRONG == 6
  checkpoint(x, [](const auto& h) { return h; });
#endif
#else
  const auto h = checkpoint<checkpoint_selective>([y](const auto& a) { return a * y; }, x);
  const auto s = checkpoint([=](const auto& a) { return sum(a); }, h);
  return loss{s, sum(h)};
#endif
}
