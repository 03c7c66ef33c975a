// Stochastic gradient descent with momentum (Polyak 1964; Nesterov's form as Sutskever et al. 2013). Invariant: made of
// the backend's kernels alone, so it runs wherever they do.
#pragma once

#include <algorithm>

#include <weft/optim/update_tensor.hpp>

namespace weft {

/// velocity = momentum * velocity + gradient; weight -= lr * velocity, or by Nesterov lr * (gradient + momentum *
/// velocity). Weight decay is decoupled: the weight is multiplied by 1 - lr * weight_decay first. PyTorch's SGD adds it
/// to the gradient instead.
struct sgd {
  static constexpr int moments = 1;
  static constexpr std::string_view name = "SGD";
  static constexpr bool on_every_backend = true;

  double lr = 0.1, momentum = 0.9, weight_decay = 0;
  bool nesterov = false;

  friend bool operator==(const sgd&, const sgd&) = default;

  std::vector<named_number> numbers() const {
    return {{"lr", lr}, {"momentum", momentum}, {"weight_decay", weight_decay}, {"nesterov", double(nesterov)}};
  }

  /// In pieces of 2^22 elements, which are what is made for a while beside what a store keeps.
  template <class Share>
  void update(const Share& s, const kernel_step& step) const {
    constexpr std::int64_t piece = std::int64_t{1} << 22;
    for (std::int64_t at = 0; at < s.count; at += piece) update_piece(s.part(at, std::min(piece, s.count - at)), step);
  }

 private:
  template <class Share>
  void update_piece(const Share& s, const kernel_step& step) const {
    using master = typename Share::master;
    const local_array moved = s.ctx.make(dtype_of<master>, shape{1, {s.count}}, memory::buffers);
    auto* direction = moved.template as<master>();
    s.scaled_gradient(step.grad_scale, direction);
    const master* gradient = direction;
    s.accumulate(momentum, gradient);
    if (nesterov)
      Share::backend::scale(s.queue(), s.count, momentum, static_cast<const master*>(s.first), direction, true);
    s.move(step.lr, weight_decay, step.lr, nesterov ? gradient : s.first);
  }
};

/// Throws weft::failure when a number has no meaning.
inline void check(const sgd& o) {
  detail::require_rate(sgd::name, "lr", o.lr);
  detail::require_below_one(sgd::name, "momentum", o.momentum);
  detail::require_rate(sgd::name, "weight_decay", o.weight_decay);
}

}  // namespace weft
