// Which family an opcode belongs to, and what all of them read alike: types, rounding, space, width.
#include "families.hpp"
#include "numbers.hpp"

namespace device {

bool decode(instruction& in, const opcode& words) {
  bool first = true;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view w = words[i];
    if (const type t = type_called(w); t.is != kind::none) {
      (first ? in.of : in.from) = t;
      first = false;
    }
    if (w == "sat") in.saturates = true;
    if (w == "ftz") in.flushes = true;
    if (w == "rz" || w == "rzi") in.rounding = to_zero;
    if (w == "rm" || w == "rmi") in.rounding = down;
    if (w == "rp" || w == "rpi") in.rounding = up;
    if (w == "v2") in.vector = 2;
    if (w == "v4") in.vector = 4;
    if (w == "global" || w == "const") in.in = space::global;
    if (w == "shared" || w.starts_with("shared::")) in.in = space::shared;
    if (w == "local") in.in = space::local;
    if (w == "param" || w.starts_with("param::")) in.in = space::parameter;
    if (w == "aligned") in.aligned = true;
  }
  for (const auto family : {decode_arithmetic, decode_halves, decode_functions, decode_bits, decode_comparison,
                            decode_conversion, decode_move, decode_memory, decode_atomic, decode_warp, decode_tensor,
                            decode_copy, decode_phase, decode_tile_copy, decode_warpgroup, decode_flow})
    if (family(in, words)) return true;
  return false;
}

}  // namespace device
