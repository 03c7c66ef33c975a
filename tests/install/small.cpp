// What most consumer projects build, since whether the library is found takes no more: two ranks that count to two.
// The whole library, twice in a program, is find_package's: program.cpp and second.cpp.
#include <cstdint>

#include <weft/comm/threads.hpp>

int main() {
  bool right[2] = {};
  weft::threads::launch(2, [&](weft::threads& world) {
    const std::int32_t one = 1;
    std::int32_t all = 0;
    world.all_reduce(&one, &all, 1, weft::dtype::i32, weft::reduction::sum).wait();
    right[world.rank()] = all == 2;
  });
  return right[0] && right[1] ? 0 : 1;
}
