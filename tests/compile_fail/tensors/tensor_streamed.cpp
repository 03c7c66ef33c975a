// expect: weft: a tensor isn't streamed: print(name, x) shows it, item(x) is a scalar's number, and on_host(x) are all of its numbers
#include <iostream>

#include <weft/weft.hpp>
using namespace weft;

void program(const tensor<float, dims<>>& loss) {
#ifdef WRONG
  std::cout << "loss " << loss << "\n";
#else
  std::cout << "loss " << item(loss) << "\n";
#endif
}
