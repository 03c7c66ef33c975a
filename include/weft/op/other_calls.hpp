// What is said to a call of an operator that fits none of its forms: too few or too many arguments, a number where a
// tensor belongs, an axis where a dimension belongs, no tag or one too many.
// Invariant: chosen where nothing else can be, since every argument is converted; so no call that compiles is taken.
#pragma once

#include <initializer_list>

#include <weft/core/refusal.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft {

namespace detail {
/// Made from whatever is given, by a conversion of its own, which every other overload is better than.
struct any_argument {
  constexpr any_argument() {}
  template <class T>
  constexpr any_argument(const T&) {}
  template <class T>
  constexpr any_argument(std::initializer_list<T>) {}
};
template <class... Tags>
inline constexpr bool is_form = sizeof...(Tags) > 99;
template <auto... Tags>
inline constexpr bool is_form_of = sizeof...(Tags) > 99;
}  // namespace detail

#define WEFT_DETAIL_ARGUMENTS                                                                                 \
  detail::any_argument = {}, detail::any_argument = {}, detail::any_argument = {}, detail::any_argument = {}, \
  detail::any_argument = {}, detail::any_argument = {}
#define WEFT_DETAIL_OTHER_CALLS(name, form)                                                                 \
  template <class... Tags>                                                                                  \
  detail::refused_call name(WEFT_DETAIL_ARGUMENTS) {                                                        \
    static_assert(detail::is_form<Tags...>, "weft: " form);                                                 \
    return {};                                                                                              \
  }                                                                                                         \
  template <auto Number, auto... Numbers>                                                                   \
  detail::refused_call name(WEFT_DETAIL_ARGUMENTS) {                                                        \
    static_assert(detail::is_form_of<Number, Numbers...>, "weft: " form " (tags are types: batch, not 0)"); \
    return {};                                                                                              \
  }

#define WEFT_DETAIL_OTHER_FUNCTIONS(name) WEFT_DETAIL_OTHER_CALLS(name, #name "(x) takes one tensor, and no tag")
WEFT_DETAIL_OTHER_FUNCTIONS(exp)
WEFT_DETAIL_OTHER_FUNCTIONS(log)
WEFT_DETAIL_OTHER_FUNCTIONS(sqrt)
WEFT_DETAIL_OTHER_FUNCTIONS(rsqrt)
WEFT_DETAIL_OTHER_FUNCTIONS(reciprocal)
WEFT_DETAIL_OTHER_FUNCTIONS(square)
WEFT_DETAIL_OTHER_FUNCTIONS(abs)
WEFT_DETAIL_OTHER_FUNCTIONS(tanh)
WEFT_DETAIL_OTHER_FUNCTIONS(sigmoid)
WEFT_DETAIL_OTHER_FUNCTIONS(relu)
WEFT_DETAIL_OTHER_FUNCTIONS(silu)
WEFT_DETAIL_OTHER_FUNCTIONS(gelu)
WEFT_DETAIL_OTHER_FUNCTIONS(gelu_exact)
WEFT_DETAIL_OTHER_FUNCTIONS(detach)
WEFT_DETAIL_OTHER_FUNCTIONS(on_host)
WEFT_DETAIL_OTHER_FUNCTIONS(local_share_on_host)
#undef WEFT_DETAIL_OTHER_FUNCTIONS

#define WEFT_DETAIL_OTHER_ALONG(name) WEFT_DETAIL_OTHER_CALLS(name, #name "<dim>(x) takes one dimension and one tensor")
WEFT_DETAIL_OTHER_ALONG(softmax)
WEFT_DETAIL_OTHER_ALONG(max)
WEFT_DETAIL_OTHER_ALONG(argmax)
#undef WEFT_DETAIL_OTHER_ALONG

#define WEFT_DETAIL_OTHER_OVER_AXIS(name) WEFT_DETAIL_OTHER_CALLS(name, #name "<axis>(x) takes one axis and one tensor")
WEFT_DETAIL_OTHER_OVER_AXIS(all_reduce)
WEFT_DETAIL_OTHER_OVER_AXIS(all_gather)
WEFT_DETAIL_OTHER_OVER_AXIS(shift)
#undef WEFT_DETAIL_OTHER_OVER_AXIS

#define WEFT_DETAIL_OTHER_MOVES(name) \
  WEFT_DETAIL_OTHER_CALLS(name, #name "<dim, axis>(x) takes a dimension, then an axis, and one tensor")
WEFT_DETAIL_OTHER_MOVES(reduce_scatter)
WEFT_DETAIL_OTHER_MOVES(split)
WEFT_DETAIL_OTHER_MOVES(all_to_all)
#undef WEFT_DETAIL_OTHER_MOVES

WEFT_DETAIL_OTHER_CALLS(
    sum, "sum<dim...>(x) takes the dimensions that it adds over, all where none is named, and one tensor")
WEFT_DETAIL_OTHER_CALLS(
    mean, "mean<dim...>(x) takes the dimensions that it goes over, all where none is named, and one tensor")
WEFT_DETAIL_OTHER_CALLS(scale, "scale(x, number) takes a tensor, then a number")
WEFT_DETAIL_OTHER_CALLS(
    contract, "contract<dim...>(a, b) takes the dimensions that are summed over, two tensors, and perhaps a bias")
WEFT_DETAIL_OTHER_CALLS(contract_float8,
                        "contract_float8<dim...>(a, b) takes the dimensions that are summed over, and two tensors")
WEFT_DETAIL_OTHER_CALLS(
    contract_gelu, "contract_gelu<dim...>(a, b, bias) takes the dimensions that are summed over, and three tensors")
WEFT_DETAIL_OTHER_CALLS(
    rms_norm, "rms_norm(x, weight, eps) takes two tensors and a number, and goes along the weight's dimension")
WEFT_DETAIL_OTHER_CALLS(
    layer_norm,
    "layer_norm(x, weight, bias, eps) takes three tensors and a number, and goes along the weight's "
    "dimension")
WEFT_DETAIL_OTHER_CALLS(
    add_rms_norm,
    "add_rms_norm(x, r, weight, eps) takes three tensors and a number, and goes along the weight's dimension")
WEFT_DETAIL_OTHER_CALLS(
    add_layer_norm,
    "add_layer_norm(x, r, weight, bias, eps) takes four tensors and a number, and goes along the weight's dimension")
WEFT_DETAIL_OTHER_CALLS(embedding, "embedding(ids, table) takes a tensor of int32 and a table of [rows, width]")
WEFT_DETAIL_OTHER_CALLS(
    cross_entropy,
    "cross_entropy(logits, targets, {.label_smoothing = s}) takes two tensors, the targets int32 and "
    "without the vocabulary's dimension")
WEFT_DETAIL_OTHER_CALLS(convert,
                        "convert<placement>(x) takes one placement on one axis, replicate<tp> say, and one tensor")
WEFT_DETAIL_OTHER_CALLS(slice, "slice<dim>(x, begin, count) takes one dimension, a tensor and two numbers")
WEFT_DETAIL_OTHER_CALLS(permute, "permute<dim...>(x) takes all dimensions of one tensor, in their new order")
WEFT_DETAIL_OTHER_CALLS(rename, "rename<from, to>(x) takes a dimension, its new name, and one tensor")
WEFT_DETAIL_OTHER_CALLS(cast, "cast<T>(x) takes an element type, float say, and one tensor")
WEFT_DETAIL_OTHER_CALLS(where, "where(mask, a, b) takes three tensors, the first a mask of uint8, and no tag")
WEFT_DETAIL_OTHER_CALLS(maximum, "maximum(a, b) takes two tensors")
WEFT_DETAIL_OTHER_CALLS(minimum, "minimum(a, b) takes two tensors")
WEFT_DETAIL_OTHER_CALLS(concat, "concat<dim>(x, y, ...) takes one dimension, which all have, and tensors")
WEFT_DETAIL_OTHER_CALLS(take, "take<dim>(x, ids) takes one dimension of x, the tensor x and a tensor of int32")
WEFT_DETAIL_OTHER_CALLS(dropout, "dropout(x, rate, stream) takes a tensor, a rate and a number that seeds the mask")
WEFT_DETAIL_OTHER_CALLS(
    attention,
    "attention(q, k, v, {.causal = true}) takes three tensors, document_starts as a fourth where there are any, and "
    "options in braces")
WEFT_DETAIL_OTHER_CALLS(document_starts,
                        "document_starts(tokens, end) takes a tensor of int32, and the token that ends a document")
WEFT_DETAIL_OTHER_CALLS(document_positions, "document_positions(starts) takes what document_starts gives")
WEFT_DETAIL_OTHER_CALLS(swiglu, "swiglu(gate, up) takes two tensors, and no tag")
WEFT_DETAIL_OTHER_CALLS(rope, "rope(x, table) takes a tensor with the dimensions seq and head_dim, and a rope_table")
WEFT_DETAIL_OTHER_CALLS(merge, "merge<out, outer, inner>(x) takes three dimensions and one tensor")
WEFT_DETAIL_OTHER_CALLS(repeat, "repeat<dim>(x, times) takes one dimension, a tensor and a number")
WEFT_DETAIL_OTHER_CALLS(item, "item(x) takes one tensor of no dimensions: item(sum(x))")
WEFT_DETAIL_OTHER_CALLS(backward,
                        "backward(loss) takes one tensor of no dimensions: backward(sum(x)), or backward(l.sum) "
                        "of a cross_entropy l")
WEFT_DETAIL_OTHER_CALLS(checkpoint, "checkpoint(f, x) takes a function of one tensor, and that tensor")
WEFT_DETAIL_OTHER_CALLS(custom_gradient,
                        "custom_gradient(f, x, ...) takes a struct with forward and vjp, and the tensors that forward "
                        "takes")
WEFT_DETAIL_OTHER_CALLS(local_map,
                        "local_map<Y>(name, f, x, ...) takes the type of each output, a name, a function of what a "
                        "rank holds, and tensors")
#define WEFT_DETAIL_OTHER_CREATORS(name, rest) \
  WEFT_DETAIL_OTHER_CALLS(                     \
      name, #name "<tensor<...>>(" rest ") takes a tensor's type, the context and global extents in braces")
WEFT_DETAIL_OTHER_CREATORS(zeros, "ctx, {n, m}")
WEFT_DETAIL_OTHER_CREATORS(ones, "ctx, {n, m}")
WEFT_DETAIL_OTHER_CREATORS(full, "ctx, {n, m}, number")
WEFT_DETAIL_OTHER_CREATORS(normal, "ctx, \"name\", {n, m}")
WEFT_DETAIL_OTHER_CREATORS(uniform, "ctx, \"name\", {n, m}")
#undef WEFT_DETAIL_OTHER_CREATORS

#undef WEFT_DETAIL_OTHER_CALLS
#undef WEFT_DETAIL_ARGUMENTS

#define WEFT_DETAIL_OTHER_SIDES(op)                                                                           \
  template <class... None>                                                                                    \
  detail::refused_call operator op(detail::any_argument, detail::any_argument) {                              \
    static_assert(detail::is_form<None...>, "weft: a " #op " b takes two tensors, or a tensor and a number"); \
    return {};                                                                                                \
  }
WEFT_DETAIL_OTHER_SIDES(+)
WEFT_DETAIL_OTHER_SIDES(-)
WEFT_DETAIL_OTHER_SIDES(*)
WEFT_DETAIL_OTHER_SIDES(/)
#undef WEFT_DETAIL_OTHER_SIDES

/// Refused: C++ asks == of whole values.
template <any_tensor A, class B>
bool operator==(const A&, const B&) {
  static_assert(!any_tensor<A>,
                "weft: a == b is asked of whole values in C++: equal(a, b) compares element by element");
  return false;
}

#define WEFT_DETAIL_IN_PLACE(op)                                                                              \
  template <any_tensor A, class B>                                                                            \
  A& operator op##=(A& a, const B&) {                                                                         \
    static_assert(!any_tensor<A>, "weft: a " #op "= b would write to what may be recorded: a = a " #op " b"); \
    return a;                                                                                                 \
  }
WEFT_DETAIL_IN_PLACE(+)
WEFT_DETAIL_IN_PLACE(-)
WEFT_DETAIL_IN_PLACE(*)
WEFT_DETAIL_IN_PLACE(/)
#undef WEFT_DETAIL_IN_PLACE

}  // namespace weft
