// What weft::compiled has of templates above the kernels: for cpu_backend and the element types that ship, what an
// operator does once its placements are known; for cpu_backend, what conversions do.
// Invariant: linked or compiled in place, it is the same function.
#pragma once

#include <weft/backend/cpu.hpp>
#include <weft/op/add_norm.hpp>
#include <weft/op/arithmetic.hpp>
#include <weft/op/attention.hpp>
#include <weft/op/contract_engine.hpp>
#include <weft/op/convert_engine.hpp>
#include <weft/op/cross_entropy.hpp>
#include <weft/op/dropout.hpp>
#include <weft/op/elementwise.hpp>
#include <weft/op/embedding.hpp>
#include <weft/op/layer_norm.hpp>
#include <weft/op/merge.hpp>
#include <weft/op/repeat.hpp>
#include <weft/op/rms_norm.hpp>
#include <weft/op/rope.hpp>
#include <weft/op/softmax.hpp>
#include <weft/op/swiglu.hpp>
#include <weft/op/view.hpp>

/// In namespace weft::detail, where INSTANCE is `template` to compile them or `extern template` to link them: operators
/// of tensors of type T.
#define WEFT_DETAIL_OPERATORS(INSTANCE, T)                                                                             \
  INSTANCE value unary_operator<cpu_backend, T>::forward(const value&, unary_operator<cpu_backend, T>::kernels);       \
  INSTANCE value scale_operator<cpu_backend, T>::forward(const value&, double);                                        \
  INSTANCE value binary_operator<cpu_backend, T>::forward(const value&, const value&, binary, const broadcast_map&,    \
                                                          const shape&, const shape&, double);                         \
  INSTANCE value contraction<cpu_backend, T>::forward(const value&, const value&, const contraction_labels&,           \
                                                      const shape&, const shape&);                                     \
  INSTANCE value softmax_operator<cpu_backend, T>::forward(const value&, int);                                         \
  INSTANCE value swiglu_operator<cpu_backend, T>::forward(const value&, const value&);                                 \
  INSTANCE value rms_norm_operator<cpu_backend, T>::forward(const value&, const value&, double, const shape&);         \
  INSTANCE value layer_norm_operator<cpu_backend, T>::forward(const value&, const value&, const value&, double,        \
                                                              const shape&);                                           \
  INSTANCE add_norm_operator<cpu_backend, T>::result add_norm_operator<cpu_backend, T>::rms_norm(                      \
      const value&, const value&, const value&, double, const broadcast_map&, const shape&);                           \
  INSTANCE add_norm_operator<cpu_backend, T>::result add_norm_operator<cpu_backend, T>::layer_norm(                    \
      const value&, const value&, const value&, const value&, double, const broadcast_map&, const shape&);             \
  INSTANCE value dropout_operator<cpu_backend, T>::forward(const value&,                                               \
                                                           const dropout_operator<cpu_backend, T>::attributes&);       \
  INSTANCE value rope_operator<cpu_backend, T>::forward(const value&, const rope_table&, const dimension_run&,         \
                                                        kv_cache*);                                                    \
  INSTANCE value attention_operator<cpu_backend, T>::forward(const value&, const value&, const value&, const value*,   \
                                                             attention_options);                                       \
  INSTANCE value embedding_operator<cpu_backend, T>::forward(const value&, const value&, const dimension_run&,         \
                                                             const shape&);                                            \
  INSTANCE void cross_entropy_operator<cpu_backend, T>::forward(const value&, const value&, const local_array&,        \
                                                                const vocab_axes&, const dimension_run&, std::int64_t, \
                                                                double, call_site, value&, value&);                    \
  INSTANCE value merge_operator<cpu_backend, T>::forward(const value&, int);                                           \
  INSTANCE value repeat_operator<cpu_backend, T>::forward(const value&, int, std::int64_t);                            \
  INSTANCE value slice_operator<cpu_backend, T>::forward(const value&, int, std::int64_t, std::int64_t);               \
  INSTANCE value permute_operator<cpu_backend, T>::forward(const value&,                                               \
                                                           permute_operator<cpu_backend, T>::attributes);              \
  INSTANCE void conversion<cpu_backend>::vjp<T>(context&, tape_node&);

/// There: what conversions of tensors of any type do.
#define WEFT_DETAIL_CONVERSIONS(INSTANCE)                                                                      \
  INSTANCE value conversion<cpu_backend>::forward(const value&, axis_id, const movers&, moved_dim, moved_dim,  \
                                                  const asked_for&, conversion_vjp);                           \
  INSTANCE value conversion<cpu_backend>::same(const value&, axis_id, const asked_for&, conversion_vjp, bool); \
  INSTANCE value conversion<cpu_backend>::promote(const value&, axis_id, const asked_for&, conversion_vjp);    \
  WEFT_DETAIL_MOVES(INSTANCE, none)                                                                            \
  WEFT_DETAIL_MOVES(INSTANCE, keep_first)                                                                      \
  WEFT_DETAIL_MOVES(INSTANCE, slice)                                                                           \
  WEFT_DETAIL_MOVES(INSTANCE, pad)                                                                             \
  WEFT_DETAIL_MOVES(INSTANCE, all_reduce)                                                                      \
  WEFT_DETAIL_MOVES(INSTANCE, all_gather)                                                                      \
  WEFT_DETAIL_MOVES(INSTANCE, reduce_scatter)                                                                  \
  WEFT_DETAIL_MOVES(INSTANCE, all_to_all)                                                                      \
  WEFT_DETAIL_MOVES(INSTANCE, shift)                                                                           \
  WEFT_DETAIL_MOVES(INSTANCE, shift_back)                                                                      \
  INSTANCE local_array with_padding<cpu_backend>(context&, const local_array&, const shape&, double);          \
  INSTANCE value promoted_over<cpu_backend>(const axis_set&, value, const asked_for&, conversion_vjp);

#define WEFT_DETAIL_MOVES(INSTANCE, what)                                                                      \
  INSTANCE local_array move<cpu_backend, movement::what>(context&, axis_group&, const local_array&, moved_dim, \
                                                         moved_dim, const collective_label&);
