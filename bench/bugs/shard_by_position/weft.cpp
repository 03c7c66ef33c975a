#include "../program.hpp"
using namespace weft;

int main() {
  return bugs::run<mesh<cp>>({.cp = 2}, [](context& ctx) {
#ifdef WRONG
    using sharded = shard<heads, cp>;
#else
    using sharded = shard<seq, cp>;
#endif
    auto x = generate<tensor<float, dims<batch, seq, heads>, sharded>>(ctx, {2, 8, 4}, bugs::data(1));
    auto s = permute<batch, heads, seq>(x);
    return sum(square(softmax<seq>(convert<invariant<cp>>(s))));
  });
}
