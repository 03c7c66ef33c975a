// Functions of one number: signs, roots, powers. Those that a GPU approximates are taken as exactly as the host can:
// the device's last bits aren't documented.
#include "families.hpp"
#include "lanes.hpp"

namespace device {
namespace {

struct f_negative {
  template <class T>
  static T of(T x) {
    if constexpr (std::integral<T>)
      return op_subtract::of(T(0), x);
    else
      return -x;
  }
};
struct f_size {
  template <class T>
  static T of(T x) {
    if constexpr (std::integral<T>)
      return x < 0 ? op_subtract::of(T(0), x) : x;
    else
      return std::fabs(x);
  }
};
struct f_exp2 {
  static float of(float x) { return std::exp2(x); }
};
struct f_log2 {
  static float of(float x) { return std::log2(x); }
};
struct f_reciprocal {
  template <class T>
  static T of(T x) {
    return T(1) / x;
  }
};
struct f_root {
  template <class T>
  static T of(T x) {
    return std::sqrt(x);
  }
};
struct f_reciprocal_root {
  template <class T>
  static T of(T x) {
    return T(1) / std::sqrt(x);
  }
};
struct f_sine {
  static float of(float x) { return std::sin(x); }
};
struct f_cosine {
  static float of(float x) { return std::cos(x); }
};
struct f_tanh {
  static float of(float x) { return std::tanh(x); }
};

template <class T, class Op>
void unary(warp_view& v, const instruction& in) {
  const rounded how(in.rounding);
  map_lanes<T, T>(v, in, [&](T x) {
    if constexpr (std::same_as<T, float>)
      if (in.flushes) return flushed(Op::of(flushed(x)));
    return Op::of(x);
  });
}
template <class Op>
step floats(type t) {
  return of_float(t, []<class T>(T) -> step { return unary<T, Op>; });
}
template <class Op>
step single(type t) {
  return is_float(t, 4) ? unary<float, Op> : nullptr;
}
template <class Op>
step numbers(type t) {
  if (!is_integer(t)) return floats<Op>(t);
  return of_integer(type{kind::s, t.bytes}, []<class T>(T) -> step { return unary<T, Op>; });
}

}  // namespace

bool decode_functions(instruction& in, const opcode& w) {
  const std::string_view name = w[0];
  const type t = in.of;
  if (!only(w, {"rn", "rz", "rm", "rp", "approx", "ftz"})) return false;
  if (name == "neg") return run_by(in, numbers<f_negative>(t));
  if (name == "abs") return run_by(in, numbers<f_size>(t));
  if (name == "ex2") return run_by(in, single<f_exp2>(t));
  if (name == "lg2") return run_by(in, single<f_log2>(t));
  if (name == "rcp") return run_by(in, floats<f_reciprocal>(t));
  if (name == "sqrt") return run_by(in, floats<f_root>(t));
  if (name == "rsqrt") return run_by(in, floats<f_reciprocal_root>(t));
  if (name == "sin") return run_by(in, single<f_sine>(t));
  if (name == "cos") return run_by(in, single<f_cosine>(t));
  if (name == "tanh") return run_by(in, single<f_tanh>(t));
  return false;
}

}  // namespace device
