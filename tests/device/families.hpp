// The families of opcodes, each with the functions that run it in a file of its own. Invariant: a family answers only
// for words that it knows all of; what no family knows is refused, not guessed.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "program.hpp"

namespace device {

using opcode = std::vector<std::string_view>;

/// Each sets in.run and in.goes and answers true, or leaves it.
bool decode_arithmetic(instruction& in, const opcode& words);
bool decode_halves(instruction& in, const opcode& words);
bool decode_functions(instruction& in, const opcode& words);
bool decode_bits(instruction& in, const opcode& words);
bool decode_comparison(instruction& in, const opcode& words);
bool decode_conversion(instruction& in, const opcode& words);
bool decode_move(instruction& in, const opcode& words);
bool decode_memory(instruction& in, const opcode& words);
bool decode_atomic(instruction& in, const opcode& words);
bool decode_warp(instruction& in, const opcode& words);
bool decode_tensor(instruction& in, const opcode& words);
bool decode_copy(instruction& in, const opcode& words);
bool decode_phase(instruction& in, const opcode& words);
bool decode_tile_copy(instruction& in, const opcode& words);
bool decode_warpgroup(instruction& in, const opcode& words);
bool decode_flow(instruction& in, const opcode& words);

inline bool says(const opcode& words, std::string_view one) {
  return std::find(words.begin() + 1, words.end(), one) != words.end();
}
/// Whether each word after the first is a type or one of these.
inline bool only(const opcode& words, std::initializer_list<std::string_view> known) {
  return std::all_of(words.begin() + 1, words.end(), [&](std::string_view w) {
    return type_called(w).is != kind::none || std::find(known.begin(), known.end(), w) != known.end();
  });
}
inline bool run_by(instruction& in, step f) {
  in.run = f;
  return f != nullptr;
}
inline bool is_integer(type t) { return t.is == kind::u || t.is == kind::s || t.is == kind::b; }
inline bool is_float(type t, int bytes) { return t.is == kind::floating && t.bytes == bytes; }

/// make(T()) for the integer type that t names; null for another.
template <class F>
step of_integer(type t, F make) {
  if (!is_integer(t)) return nullptr;
  const bool with_sign = t.is == kind::s;
  switch (t.bytes) {
    case 2:
      return with_sign ? make(std::int16_t()) : make(std::uint16_t());
    case 4:
      return with_sign ? make(std::int32_t()) : make(std::uint32_t());
    case 8:
      return with_sign ? make(std::int64_t()) : make(std::uint64_t());
    default:
      return nullptr;
  }
}
/// The same for float and double.
template <class F>
step of_float(type t, F make) {
  return is_float(t, 4) ? make(float()) : is_float(t, 8) ? make(double()) : nullptr;
}

}  // namespace device
