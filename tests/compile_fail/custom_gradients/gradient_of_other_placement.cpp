// expect: weft: vjp gives back gradients of their inputs' types, X::gradient_type: the same elements and dimensions, and sums pending where the input is replicate, replicate where its sum is pending; where ranks have addends only, all_reduce<axis>(dx) them
// shows: gradient_in_place_of
#include <weft/weft.hpp>
using namespace weft;

struct copied_to_all {  // Megatron's f
  static constexpr std::string_view name = "copied_to_all";
  template <class X>
  auto forward(const X& x) const {
    return convert<replicate<tp>>(x);
  }
  template <class G>
  auto vjp(const G& dy) const {
#ifdef WRONG
#if WRONG == 1
    return dy;  // each rank's addend
#elif WRONG == 2
    return cast<float>(all_reduce<tp>(dy));
#elif WRONG == 3
    return sum<hidden>(all_reduce<tp>(dy));
#endif
#else
    return all_reduce<tp>(dy);
#endif
  }
};
using rows = tensor<double, dims<batch, hidden>, shard<batch, dp>>;

auto program(const rows& x) { return custom_gradient(copied_to_all{}, x); }
