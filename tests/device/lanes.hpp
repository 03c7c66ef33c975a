// How an instruction reads and writes the registers of 32 lanes. Invariant: only lanes that run are written.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstring>
#include <tuple>
#include <utility>

#include "machine.hpp"
#include "numbers.hpp"
#include "special.hpp"

namespace device {

/// f(lane) for each that runs.
template <class F>
inline void each_lane(std::uint32_t mask, F f) {
  if (mask == all_lanes) {
    for (int l = 0; l < lanes; ++l) f(l);
  } else {
    for (std::uint32_t left = mask; left; left &= left - 1) f(std::countr_zero(left));
  }
}
inline bool has_lane(std::uint32_t mask, int lane) { return mask >> lane & 1; }

inline std::uint8_t* register_at(warp_view& v, std::uint32_t at) {
  return reinterpret_cast<std::uint8_t*>(v.own->registers.data()) + at;
}

/// An operand's 32 values. Registers of T's width are read where they are.
struct source {
  warp_view& v;
  const operand& o;
};
template <class T>
class reading {
 public:
  reading(warp_view& v, const operand& o) {
    if (o.is == operand::form::in_register && o.bytes == sizeof(T)) {
      at_ = register_at(v, o.at);
      return;
    }
    for (int l = 0; l < lanes; ++l) {
      const std::uint64_t bits = bits_of(v, o, l);
      std::memcpy(own_.data() + static_cast<std::size_t>(l) * sizeof(T), &bits, sizeof(T));
    }
    at_ = own_.data();
  }
  explicit reading(source s) : reading(s.v, s.o) {}
  reading(const reading&) = delete;
  reading& operator=(const reading&) = delete;
  T operator[](int lane) const {
    T x;
    std::memcpy(&x, at_ + static_cast<std::size_t>(lane) * sizeof(T), sizeof(T));
    return x;
  }

 private:
  static std::uint64_t bits_of(warp_view& v, const operand& o, int lane) {
    switch (o.is) {
      case operand::form::in_register: {
        std::uint64_t bits = 0;
        std::memcpy(&bits, register_at(v, o.at) + lane * o.bytes, o.bytes);
        return bits;
      }
      case operand::form::special:
        return special_value(v, o.at, lane);
      case operand::form::local_address:
        return reinterpret_cast<std::uint64_t>(v.in->local.data()) +
               static_cast<std::uint64_t>(v.own->number * lanes + lane) * v.code->local_bytes +
               static_cast<std::uint64_t>(o.value);
      default:
        return static_cast<std::uint64_t>(o.value);
    }
  }
  alignas(64) std::array<std::uint8_t, lanes * 8> own_;
  const std::uint8_t* at_;
};

/// Writes one lane. A narrower value in a wider register is extended as its type says.
template <class T>
class writing {
 public:
  writing(warp_view& v, const operand& o) : bytes_(o.bytes) {
    at_ = o.is == operand::form::in_register ? register_at(v, o.at) : nullptr;
  }
  void set(int lane, T x) {
    if (!at_) return;
    if (bytes_ == sizeof(T)) {
      std::memcpy(at_ + lane * static_cast<int>(sizeof(T)), &x, sizeof(T));
      return;
    }
    std::uint64_t bits = 0;
    if constexpr (std::signed_integral<T>)
      bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(x));
    else
      std::memcpy(&bits, &x, sizeof(T));
    std::memcpy(at_ + lane * bytes_, &bits, static_cast<std::size_t>(bytes_));
  }

 private:
  std::uint8_t* at_;
  int bytes_;
};

/// A predicate's lanes as bits.
inline std::uint32_t predicate(warp_view& v, const operand& o) {
  if (o.is == operand::form::number) return o.value ? all_lanes : 0;
  std::uint32_t bits;
  std::memcpy(&bits, register_at(v, o.at), 4);
  return o.negated ? ~bits : bits;
}
inline void set_predicate(warp_view& v, const operand& o, std::uint32_t bits) {
  if (o.is != operand::form::in_register) return;
  std::uint32_t old;
  std::memcpy(&old, register_at(v, o.at), 4);
  bits = (old & ~v.mask) | (bits & v.mask);
  std::memcpy(register_at(v, o.at), &bits, 4);
}

/// out = f(in...) in each lane, of operands 0, 1, ...
template <class Out, class... In, class F>
inline void map_lanes(warp_view& v, const instruction& in, F f) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    const std::tuple<reading<In>...> given{source{v, in.operands[I + 1]}...};
    const operand& to = in.operands[0];
    if (to.is == operand::form::in_register && to.bytes == sizeof(Out)) {
      std::uint8_t* const out = register_at(v, to.at);
      each_lane(v.mask, [&](int l) {
        const Out x = f(std::get<I>(given)[l]...);
        std::memcpy(out + static_cast<std::size_t>(l) * sizeof(Out), &x, sizeof(Out));
      });
    } else {
      writing<Out> out(v, to);
      each_lane(v.mask, [&](int l) { out.set(l, f(std::get<I>(given)[l]...)); });
    }
  }
  (std::index_sequence_for<In...>());
}

}  // namespace device
