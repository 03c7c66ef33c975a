// Lets libFuzzer change inputs by their format, too.
#include <cstring>

#include "target.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  if (seed % 2 == 0) return LLVMFuzzerMutate(data, size, most);
  weft_fuzz::random_numbers random(seed);
  const std::string made = weft_fuzz::mutated(std::string(reinterpret_cast<const char*>(data), size), random);
  const std::size_t n = std::min(made.size(), most);
  std::memcpy(data, made.data(), n);
  return n;
}
