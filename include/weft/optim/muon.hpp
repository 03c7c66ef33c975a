// Muon (Jordan et al. 2024): momentum whose matrices are made orthogonal before the weight moves by them. Invariant: a
// matrix is orthogonalised whole and without padding, whoever stores its parts.
#pragma once

#include <cmath>

#include <weft/backend/concept.hpp>
#include <weft/core/anywhere.hpp>
#include <weft/optim/by_shape.hpp>
#include <weft/optim/update_tensor.hpp>

namespace weft {
namespace detail {
/// From the sum of a matrix's squares to what it is multiplied by.
struct inverse_norm {
  double* squares;
  WEFT_ANYWHERE void operator()() const { *squares = 1 / (std::sqrt(*squares) + 1e-7); }
};
}  // namespace detail

/// For matrices of layers, through `by_shape<muon, adamw>`. A step's direction is the momentum, by Nesterov, divided by
/// its norm + 1e-7 and taken through `iterations` of Newton and Schulz's, which bring all singular values near 1; the
/// weight moves by lr * 0.2 * sqrt(max(rows, columns)) of it, about as far as under AdamW at the same lr, and decays as
/// there (Moonlight, Liu et al. 2025). In the type of master weights, not in 16 bits.
struct muon {
  static constexpr int moments = 1;
  static constexpr std::string_view name = "Muon";
  static constexpr bool whole_matrices = true, on_every_backend = true, moments_in_direction = true;

  double lr = 3e-4, momentum = 0.95, weight_decay = 0.1;
  bool nesterov = true;
  int iterations = 5;

  friend bool operator==(const muon&, const muon&) = default;

  std::vector<named_number> numbers() const {
    return {{"lr", lr},
            {"momentum", momentum},
            {"weight_decay", weight_decay},
            {"nesterov", double(nesterov)},
            {"iterations", double(iterations)}};
  }

  /// out: the momentum after this step's gradient, or what Nesterov looks ahead to. Element by element.
  template <class Share>
  void direction(const Share& s, typename Share::master* out, const kernel_step& step) const {
    using master = typename Share::master;
    s.scaled_gradient(step.grad_scale, out);
    s.accumulate(momentum, out);
    Share::backend::scale(s.queue(), s.count, nesterov ? momentum : 1.0, static_cast<const master*>(s.first), out,
                          nesterov);
  }

  /// Each matrix becomes U V^T of its singular value decomposition, about: its singular values lie near 1. A matrix of
  /// zeros stays one. x = a x + (b A + c A A) x with A = x x^T, taken over the shorter side.
  template <class Matrices>
  void change(const Matrices& x) const {
    using backend = typename Matrices::backend;
    using master = typename Matrices::master;
    constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
    const std::int64_t each = x.rows * x.columns, n = x.count * each;
    const std::int64_t side = x.rows < x.columns ? x.rows : x.columns, squares = x.count * side * side;
    if (n == 0) return;
    auto& queue = x.ctx.template queue<backend>();
    const local_array factors = x.ctx.make(dtype::f64, shape{1, {x.count}}, memory::buffers);
    auto* const factor = factors.template as<double>();
    for (std::int64_t i = 0; i < x.count; ++i) {
      master* const one = x.data + i * each;
      backend::sum_of_squares(queue, each, static_cast<const master*>(one), factor + i, false);
      backend::once(queue, detail::inverse_norm{factor + i});
      backend::scale(queue, each, kernel_number::in_memory(factor + i), static_cast<const master*>(one), one, false);
    }
    const auto make = [&](std::int64_t count) {
      return x.ctx.make(dtype_of<master>, shape{1, {count}}, memory::buffers);
    };
    const local_array product = make(squares), square = make(squares), moved = make(n);
    auto *p = product.template as<master>(), *q = square.template as<master>(), *y = moved.template as<master>();
    const master *px = x.data, *pp = p, *pq = q, *py = y;
    const bool wide = x.rows <= x.columns;
    const strides rows{x.columns, 1, each}, columns{1, x.columns, each}, small{side, 1, side * side};
    const std::int64_t longer = each / side;
    const auto multiply = [&](std::int64_t m, std::int64_t columns_of_b, std::int64_t k, const master* left, strides sl,
                              const master* right, strides sr, master* to, strides st) {
      backend::matmul(queue, matmul_shape{x.count, m, columns_of_b, k}, left, sl, right, sr, to, st, false);
    };
    for (int i = 0; i < iterations; ++i) {
      multiply(side, side, longer, px, wide ? rows : columns, px, wide ? columns : rows, p, small);
      multiply(side, side, side, pp, small, pp, small, q, small);
      backend::scale(queue, squares, c, pq, q, false);
      backend::scale(queue, squares, b, pp, q, true);
      if (wide)
        multiply(side, x.columns, side, pq, small, px, rows, y, rows);
      else
        multiply(x.rows, side, side, px, rows, pq, small, y, rows);
      backend::scale(queue, n, a, px, x.data, false);
      backend::scale(queue, n, 1.0, py, x.data, true);
    }
  }

  /// Moves what this rank updates of a parameter by its part of the changed matrices.
  template <class Share>
  void update(const Share& s, const typename Share::master* part, std::int64_t rows, std::int64_t columns,
              const kernel_step& step) const {
    const auto longer = static_cast<double>(rows > columns ? rows : columns);
    s.move(step.lr, weight_decay, step.lr * 0.2 * std::sqrt(longer), part);
  }
};

/// Throws weft::failure when a number has no meaning.
WEFT_LINKED void check(const muon& o) {
  detail::require_rate(muon::name, "lr", o.lr);
  detail::require_below_one(muon::name, "momentum", o.momentum);
  detail::require_rate(muon::name, "weight_decay", o.weight_decay);
  require(o.iterations >= 1, "Muon's iterations are ", o.iterations, "; there has to be at least 1");
}

}  // namespace weft
