// Two optimizers for one model: one of whole matrices, one of elements. And what a trainer takes, which is this or one.
// Invariant: each sees what it would see alone; which parameter is whose follows from the parameter's type.
#pragma once

#include <string>
#include <vector>

#include <weft/optim/optimizer.hpp>

namespace weft {

/// Matrices of layers by one optimizer, all else (tables, norms, biases) by another. Which is which follows from the
/// parameters' types (matrix_form). Both follow the schedule, each from its own lr; `lr` is the one that is reported.
template <class Matrices, class Others>
struct by_shape {
  static_assert(matrix_optimizer<Matrices>,
                "weft: by_shape's first optimizer takes whole matrices, as muon does: by_shape{muon{}, adamw{}}");
  static_assert(optimizer_policy<Others> && !matrix_optimizer<Others>,
                "weft: by_shape's second optimizer goes element by element, as adamw and sgd do: by_shape{muon{}, "
                "adamw{}}");
  Matrices matrices = {};
  Others others = {};
  double lr = others.lr > 0 ? others.lr : matrices.lr;

  static constexpr int matrix_moments = Matrices::moments, moments = Others::moments;
  static constexpr bool whole_shares = requires { requires Matrices::whole_shares; };  // one_owner

  std::vector<named_number> numbers() const {
    std::vector<named_number> out{{"lr", lr}};
    if constexpr (requires { matrices.numbers(); })
      for (const named_number& n : matrices.numbers()) out.push_back(n);
    if constexpr (requires { others.numbers(); })
      for (const named_number& n : others.numbers()) out.push_back(n);
    return out;
  }
  /// Throws weft::failure where a number of o has no meaning, as far as its two say.
  friend void check(const by_shape& o) {
    if constexpr (requires { check(o.matrices); }) check(o.matrices);
    if constexpr (requires { check(o.others); }) check(o.others);
    require(o.lr > 0 || (o.matrices.lr == 0 && o.others.lr == 0), "by_shape's lr, which the schedule scales, is ", o.lr,
            ", and its two optimizers have ", o.matrices.lr, " and ", o.others.lr,
            ": leave it out, or give a number above 0");
  }
  /// The step as optimizer `o` takes it.
  template <class O, class Step>
  Step of(const O& o, Step step) const {
    step.lr = lr > 0 ? o.lr * (step.lr / lr) : 0;
    return step;
  }
};
template <class Matrices, class Others>
by_shape(Matrices, Others) -> by_shape<Matrices, Others>;
template <class Matrices, class Others>
by_shape(Matrices, Others, double) -> by_shape<Matrices, Others>;

namespace detail {
template <class O>
inline constexpr bool is_by_shape = false;
template <class M, class E>
inline constexpr bool is_by_shape<by_shape<M, E>> = true;
/// Whether nothing of O is computed on the host.
template <class O>
inline constexpr bool of_kernels = kernel_optimizer<O>;
template <class M, class E>
inline constexpr bool of_kernels<by_shape<M, E>> = kernel_optimizer<M>&& kernel_optimizer<E>;

/// "AdamW", "Muon beside AdamW"; of one that doesn't say its name how many moments it has.
template <class O>
std::string optimizer_text(const O& o) {
  if constexpr (is_by_shape<O>)
    return optimizer_text(o.matrices) + " beside " + optimizer_text(o.others);
  else if constexpr (requires { std::string_view(O::name); })
    return std::string(O::name);
  else
    return text("an optimizer of ", O::moments, O::moments == 1 ? " moment" : " moments");
}
}  // namespace detail

/// What a trainer and a parameter store take.
template <class O>
concept any_optimizer = (optimizer_policy<O> && !matrix_optimizer<O>) || detail::is_by_shape<O>;

namespace detail {
/// Says what O lacks where it isn't any_optimizer.
template <class O>
constexpr bool ask_optimizer() {
  static_assert(!matrix_optimizer<O>,
                "weft: this optimizer takes whole matrices, and a model has tables and vectors too: "
                "by_shape{muon{}, adamw{}}");
  static_assert(matrix_optimizer<O> || any_optimizer<O>,
                "weft: an optimizer is adamw, sgd, by_shape, or a type with 'static constexpr int moments', 'lr' and "
                "update(share, step) const: see optimizer_policy");
  return true;  // it was said
}
}  // namespace detail

}  // namespace weft
