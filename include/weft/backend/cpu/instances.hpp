// The kernels that a program can link instead of compiling them: for the types that ship, what their templates are
// instantiated with. What isn't here is compiled where it is called.
// Invariant: linked or compiled in place, a kernel is the same code, so it computes the same bits.
#pragma once

#include <weft/backend/cpu/kernels.hpp>
#include <weft/backend/cpu/matmul.hpp>
#include <weft/backend/cpu/row_loss.hpp>

/// In namespace weft::cpu, where INSTANCE is `template` to compile them or `extern template` to link them: the kernels
/// whose arrays are of type T, and of the type that its sums have.
#define WEFT_DETAIL_KERNELS(INSTANCE, T)                                                                               \
  INSTANCE void matmul(team&, const matmul_shape&, const T*, strides, const T*, strides, T*, strides, bool);           \
  INSTANCE void apply(team&, binary, int64, const T*, const T*, T*);                                                   \
  INSTANCE void apply(team&, binary, int, const int64*, const T*, const int64*, const T*, const int64*, T*);           \
  WEFT_DETAIL_UNARY_KERNELS(INSTANCE, T, identity)                                                                     \
  WEFT_DETAIL_UNARY_KERNELS(INSTANCE, T, negate)                                                                       \
  WEFT_DETAIL_UNARY_KERNELS(INSTANCE, T, exp)                                                                          \
  WEFT_DETAIL_UNARY_KERNELS(INSTANCE, T, log)                                                                          \
  WEFT_DETAIL_UNARY_KERNELS(INSTANCE, T, sqrt)                                                                         \
  WEFT_DETAIL_UNARY_KERNELS(INSTANCE, T, rsqrt)                                                                        \
  WEFT_DETAIL_UNARY_KERNELS(INSTANCE, T, reciprocal)                                                                   \
  WEFT_DETAIL_UNARY_KERNELS(INSTANCE, T, square)                                                                       \
  WEFT_DETAIL_UNARY_KERNELS(INSTANCE, T, abs)                                                                          \
  WEFT_DETAIL_UNARY_KERNELS(INSTANCE, T, tanh)                                                                         \
  WEFT_DETAIL_UNARY_KERNELS(INSTANCE, T, sigmoid)                                                                      \
  WEFT_DETAIL_UNARY_KERNELS(INSTANCE, T, relu)                                                                         \
  WEFT_DETAIL_UNARY_KERNELS(INSTANCE, T, silu)                                                                         \
  WEFT_DETAIL_UNARY_KERNELS(INSTANCE, T, gelu)                                                                         \
  WEFT_DETAIL_UNARY_KERNELS(INSTANCE, T, gelu_exact)                                                                   \
  INSTANCE void scale(team&, int64, const kernel_number&, const T*, T*, bool);                                         \
  INSTANCE void detail::convert_elements<double, T>(int64, const void*, void*, bool);                                  \
  INSTANCE void detail::convert_elements<float, T>(int64, const void*, void*, bool);                                   \
  INSTANCE void detail::convert_elements<bf16, T>(int64, const void*, void*, bool);                                    \
  INSTANCE void detail::convert_elements<fp16, T>(int64, const void*, void*, bool);                                    \
  INSTANCE void softmax(team&, int64, int64, int64, const T*, T*);                                                     \
  INSTANCE void softmax_backward(team&, int64, int64, int64, const T*, const T*, T*, bool);                            \
  INSTANCE void swiglu(team&, int64, const T*, const T*, T*);                                                          \
  INSTANCE void swiglu_backward(team&, int64, const T*, const T*, const T*, T*, bool, T*, bool);                       \
  INSTANCE void rms_norm(team&, int64, int64, double, const T*, const T*, T*, accumulate_t<T>*);                       \
  INSTANCE void add_rms_norm(team&, int64, int64, double, const T*, const T*, const T*, T*, T*, accumulate_t<T>*);     \
  INSTANCE void add_layer_norm(team&, int64, int64, double, const T*, const T*, const T*, const T*, T*, T*, double*,   \
                               accumulate_t<T>*);                                                                      \
  WEFT_DETAIL_WEIGHT_KERNELS(INSTANCE, T, T)                                                                           \
  INSTANCE void layer_norm(team&, int64, int64, double, const T*, const T*, const T*, T*, double*, accumulate_t<T>*);  \
  INSTANCE void dropout(team&, const dropout_mask&, const placed_slice&, const T*, T*, bool);                          \
  INSTANCE void rope(team&, int64, int64, int64, int64, const T*, const accumulate_t<T>*, const accumulate_t<T>*,      \
                     int64, bool, T*, bool);                                                                           \
  INSTANCE void attention(team&, const attention_shape&, const T*, const T*, const T*, T*, accumulate_t<T>*);          \
  INSTANCE void attention_backward(team&, const attention_shape&, const T*, const T*, const T*, const T*,              \
                                   const accumulate_t<T>*, const T*, T*, bool, T*, bool, T*, bool);                    \
  INSTANCE void row_max(team&, int64, int64, const T*, accumulate_t<T>*, int64);                                       \
  INSTANCE void row_sums(team&, int64, int64, const T*, int64, const std::int32_t*, const accumulate_t<T>*,            \
                         accumulate_t<T>*, accumulate_t<T>*, accumulate_t<T>*, int64);                                 \
  INSTANCE void cross_entropy_backward(team&, int64, int64, const T*, int64, const std::int32_t*,                      \
                                       const accumulate_t<T>*, const accumulate_t<T>*, const accumulate_t<T>*, double, \
                                       int64, T*, int64);                                                              \
  INSTANCE void embedding(team&, int64, int64, const std::int32_t*, int64, int64, const T*, T*);                       \
  INSTANCE void reduce_dims<reduce::max>(team&, int, const int64*, const bool*, const T*, T*, bool);                   \
  INSTANCE void reduce_dims<reduce::min>(team&, int, const int64*, const bool*, const T*, T*, bool);                   \
  INSTANCE void repeat(team&, int, const int64*, const bool*, const T*, T*, bool);                                     \
  INSTANCE void sum_of_squares(team&, int64, const T*, double*, bool);                                                 \
  INSTANCE array_statistics statistics(team&, int64, const T*);                                                        \
  INSTANCE int64 zero_not_finite(team&, int64, T*);                                                                    \
  INSTANCE void normal(team&, const placed_slice&, int64, int64, double, double, const philox&, T*);                   \
  INSTANCE void dequantise(team&, const quantised_slice&, T*);

#define WEFT_DETAIL_UNARY_KERNELS(INSTANCE, T, f)            \
  INSTANCE void apply<unary::f>(team&, int64, const T*, T*); \
  INSTANCE void apply_backward<unary::f>(team&, int64, const T*, const T*, T*, bool);

/// Those whose gradients of weights are of type G: T, and with a T of 16 bits float too.
#define WEFT_DETAIL_WEIGHT_KERNELS(INSTANCE, T, G)                                                                     \
  INSTANCE void rms_norm_backward(team&, int64, int64, const T*, const T*, const accumulate_t<T>*, const T*, T*, bool, \
                                  G*, bool);                                                                           \
  INSTANCE void layer_norm_backward(team&, int64, int64, const T*, const T*, const double*, const accumulate_t<T>*,    \
                                    const T*, T*, bool, G*, bool, G*, bool);                                           \
  INSTANCE void embedding_backward(team&, int64, int64, const std::int32_t*, int64, int64, const T*, G*, bool);        \
  INSTANCE void reduce_dims<reduce::sum>(team&, int, const int64*, const bool*, const T*, G*, bool);                   \
  INSTANCE void adamw(team&, const adamw_step&, int64, const decay_ranges&, accumulate_t<T>*, accumulate_t<T>*,        \
                      accumulate_t<T>*, const G*, T*);

/// Those whose moments are bf16, of gradients of type G.
#define WEFT_DETAIL_ROUNDED_KERNELS(INSTANCE, T, G)                                                             \
  INSTANCE void adamw(team&, const adamw_step&, int64, const decay_ranges&, float*, bf16*, bf16*, const G*, T*, \
                      const rounding_ranges&);

/// For a T of 16 bits: those whose results are float.
#define WEFT_DETAIL_WIDER_KERNELS(INSTANCE, T)                                                                   \
  WEFT_DETAIL_ROUNDED_KERNELS(INSTANCE, T, T)                                                                    \
  WEFT_DETAIL_ROUNDED_KERNELS(INSTANCE, T, float)                                                                \
  INSTANCE void matmul(team&, const matmul_shape&, const T*, strides, const T*, strides, float*, strides, bool); \
  WEFT_DETAIL_WEIGHT_KERNELS(INSTANCE, T, float)

/// Those of the types in which sums are formed.
#define WEFT_DETAIL_SUM_KERNELS(INSTANCE, T)                                                                           \
  INSTANCE void row_loss(team&, int64, const std::int32_t*, const T*, const T*, const T*, const T*, double, int64, T*, \
                         T*, T*);

/// Copies move bits: one kernel a size.
#define WEFT_DETAIL_COPY_KERNELS(INSTANCE, BITS)                                 \
  INSTANCE void detail::move_row<BITS>(int64, const void*, int64, void*, int64); \
  INSTANCE void detail::move_transposed<BITS>(int64, int64, const void*, int64, void*, int64);
