// expect: weft: a tensor's elements are float, double, bf16, fp16, int32, int64 or uint8: a mask is a tensor of std::uint8_t
#include <weft/weft.hpp>
using namespace weft;

#ifdef WRONG
#if WRONG == 1
tensor<bool, dims<batch>> mask;
#elif WRONG == 2
tensor<char, dims<batch>> mask;
#endif
#else
tensor<std::uint8_t, dims<batch>> mask;
#endif
