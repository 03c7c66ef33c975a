// A GPU's execution context: what host_block.hpp offers a kernel's body, mapped to intrinsics. Invariant: the same
// members with the same meaning as host_block, so that a body tested there is the body that runs here.
#pragma once

#include <bit>

#include <weft/backend/cuda/kernel.hpp>

namespace weft::gpu {
namespace detail {

template <int Bytes>
struct word;
template <>
struct word<16> {
  using type = uint4;
};
template <>
struct word<8> {
  using type = uint2;
};
template <>
struct word<4> {
  using type = unsigned int;
};
template <>
struct word<2> {
  using type = unsigned short;
};
template <>
struct word<1> {
  using type = unsigned char;
};

extern __shared__ __align__(16) unsigned char shared_memory[];

}  // namespace detail

class device_block {
 public:
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int threads() { return static_cast<int>(blockDim.x); }
  __device__ static int64 index() { return blockIdx.x; }
  __device__ static int64 blocks() { return gridDim.x; }
  __device__ static int lane() { return thread() % warp_size; }
  __device__ static int warp() { return thread() / warp_size; }
  __device__ static int warps() { return threads() / warp_size; }

  __device__ static void sync() { __syncthreads(); }
  __device__ static void sync_warp() { __syncwarp(); }
  template <class V>
  __device__ static V shuffle(V value, int from) {
    return __shfl_sync(0xffffffffu, value, from);
  }
  template <class V>
  __device__ static V shuffle_xor(V value, int mask) {
    return __shfl_xor_sync(0xffffffffu, value, mask);
  }
  __device__ static std::uint32_t ballot(bool yes) { return __ballot_sync(0xffffffffu, yes); }

  /// These are explained in host_block.hpp.
  // Volatile, so that no compiler moves it to where a part of the warp goes.
  template <class T>
  __device__ static void mma(float (&c)[4], const fragment& a, std::uint32_t b0, std::uint32_t b1) {
    if constexpr (dtype_of<T> == dtype::bf16)
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1));
    else
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1));
  }
  template <bool Transposed, class T>
  __device__ static fragment load_matrices(const T* row) {
    fragment out;
    if constexpr (Transposed)
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(out.at[0]), "=r"(out.at[1]), "=r"(out.at[2]), "=r"(out.at[3])
                   : "r"(shared_address(row))
                   : "memory");
    else
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(out.at[0]), "=r"(out.at[1]), "=r"(out.at[2]), "=r"(out.at[3])
                   : "r"(shared_address(row))
                   : "memory");
    return out;
  }
  template <int N, class T>
  __device__ static void copy_later(T* to, const T* from, bool there) {
    constexpr int bytes = N * static_cast<int>(sizeof(T));
    const int read = there ? bytes : 0;  // the rest becomes zeros
    if constexpr (bytes == 16)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(read)
                   : "memory");
    else
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)), "l"(from), "n"(bytes),
                   "r"(read)
                   : "memory");
  }
  __device__ static void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int Left>
  __device__ static void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
  }

  template <class T>
  __device__ static T* shared() {
    return reinterpret_cast<T*>(detail::shared_memory);
  }
  template <class T>
  __device__ static void atomic_add(T* to, T value) {
    atomicAdd(to, value);
  }

  template <int N, class T>
  __device__ static pack<T, N> load(const T* from) {
    using word = typename detail::word<N * sizeof(T)>::type;
    return std::bit_cast<pack<T, N>>(*reinterpret_cast<const word*>(from));
  }
  template <class T, int N>
  __device__ static void store(T* to, const pack<T, N>& from) {
    using word = typename detail::word<N * sizeof(T)>::type;
    *reinterpret_cast<word*>(to) = std::bit_cast<word>(from);
  }
  /// 16 bytes into global memory in one request: in PTX's own words, for where nvcc takes such a store apart, down to
  /// the elements, as counting shows.
  template <class T, int N>
  __device__ static void store_whole(T* to, const pack<T, N>& from) {
    const uint4 bits = std::bit_cast<uint4>(from);
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(bits.x),
                 "r"(bits.y), "r"(bits.z), "r"(bits.w)
                 : "memory");
  }

  template <class T>
  __device__ static accumulate_t<T> widen(T x) {
    return static_cast<accumulate_t<T>>(x);
  }
  __device__ static float widen(fp16 x) {
    float out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(x.bits));
    return out;
  }
  /// Rounded once, to nearest.
  template <class T, class A>
  __device__ static T narrow(A x) {
    if constexpr (dtype_of<T> == dtype::bf16) {
      std::uint16_t bits;
      asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(static_cast<float>(x)));
      return bf16::from_bits(bits);
    } else if constexpr (dtype_of<T> == dtype::f16) {
      std::uint16_t bits;
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(static_cast<float>(x)));
      return fp16::from_bits(bits);
    } else {
      return static_cast<T>(x);
    }
  }
  __device__ static int anew(int x) {
    asm volatile("" : "+r"(x));
    return x;
  }
  template <class T>
  __device__ static std::uint32_t narrow_pair(float low, float high) {
    std::uint32_t out;
    if constexpr (dtype_of<T> == dtype::bf16)
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    else
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
  }
  __device__ static float fast_exp(float x) {
    float out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x * 1.4426950408889634f));  // 2^(x log2(e))
    return out;
  }
  __device__ static float fast_exp2(float x) {
    float out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
    return out;
  }
  __device__ static float larger(float x, float y) { return ::fmaxf(x, y); }
  __device__ static float exp(float x) { return ::expf(x); }
  __device__ static double exp(double x) { return ::exp(x); }
  __device__ static float log(float x) { return ::logf(x); }
  __device__ static double log(double x) { return ::log(x); }
  __device__ static float sqrt(float x) { return ::sqrtf(x); }
  __device__ static double sqrt(double x) { return ::sqrt(x); }
  __device__ static float abs(float x) { return ::fabsf(x); }
  __device__ static double abs(double x) { return ::fabs(x); }
  __device__ static float tanh(float x) { return ::tanhf(x); }
  __device__ static double tanh(double x) { return ::tanh(x); }
  __device__ static float erfc(float x) { return ::erfcf(x); }
  __device__ static double erfc(double x) { return ::erfc(x); }
  /// x y, which no addition is fused with.
  __device__ static float rounded_product(float x, float y) { return __fmul_rn(x, y); }
  __device__ static float fma(float x, float y, float z) { return ::fmaf(x, y, z); }
  __device__ static double fma(double x, double y, double z) { return ::fma(x, y, z); }

 private:
  __device__ static unsigned shared_address(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
  }
};

}  // namespace weft::gpu
