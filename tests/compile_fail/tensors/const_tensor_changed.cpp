// expect: weft: a const tensor is not changed: x.requires_grad(), x.zero_grad() and x.write_local_share(f) are of one that is declared without const
#include <weft/weft.hpp>
using namespace weft;
using row = tensor<float, dims<hidden>>;

void program(context& ctx) {
#ifdef WRONG
  const auto x = ones<row>(ctx, {4});
#if WRONG == 1
  x.requires_grad();
#elif WRONG == 2
  x.zero_grad();
#elif WRONG == 3
  x.write_local_share([](auto all) { all[0] = 1; });
#endif
#else
  auto x = ones<row>(ctx, {4});
  x.requires_grad();
  x.zero_grad();
  x.write_local_share([](auto all) { all[0] = 1; });
  const auto y = ones<row>(ctx, {4}).requires_grad();
#endif
}
