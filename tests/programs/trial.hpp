// What a generated program is run with: leaves whose numbers are functions of global indices, and a place where it puts
// what it computed, as global numbers. Invariant: a program says the same of itself on one rank and on any mesh, so
// that the two are compared number by number; padding is poisoned, so that whoever reads it shows.
#pragma once

#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <weft/autograd/backward.hpp>
#include <weft/autograd/checkpoint.hpp>
#include <weft/backend/cpu.hpp>
#include <weft/op/arithmetic.hpp>
#include <weft/op/contract.hpp>
#include <weft/op/convert.hpp>
#include <weft/op/create.hpp>
#include <weft/op/cross_entropy.hpp>
#include <weft/op/dropout.hpp>
#include <weft/op/elementwise.hpp>
#include <weft/op/embedding.hpp>
#include <weft/op/layer_norm.hpp>
#include <weft/op/reduce.hpp>
#include <weft/op/ring.hpp>
#include <weft/op/rms_norm.hpp>
#include <weft/op/softmax.hpp>
#include <weft/op/swiglu.hpp>
#include <weft/op/view.hpp>
#include <weft/policy/checkpointing.hpp>

namespace programs {

using namespace weft;  // NOLINT: generated programs are written as a user's

/// What the ranks of one run computed, put together to global numbers.
class results {
 public:
  struct entry {
    std::vector<double> numbers;                         // by global index
    std::map<std::vector<int>, std::vector<double>> of;  // what the ranks that hold one addend or slice say of it
  };
  /// This rank's share of `name`. kinds: what the ranks along dp and tp hold. Throws where two ranks should hold the
  /// same and don't.
  void add(context& ctx, const std::string& name, const placed_slice& at, const holds (&kinds)[2],
           const std::vector<double>& share);
  /// The sum of the losses, each times its seed, since the gradients were last forgotten; and along the step's
  /// direction, the gradients' slope.
  double objective() const;
  void carried_back(const std::string& loss, double seed) { seeds.emplace_back(loss, seed); }
  void forget_gradients() { seeds.clear(); }

  std::map<std::string, entry> all;
  std::vector<std::pair<std::string, double>> seeds;  // of the first rank
  std::map<std::string, int> leaves;                  // whose gradients are in `all`
  double tolerance = 1e-9;

 private:
  std::mutex one_at_a_time_;
};

/// What leaf number `which` holds at a global index, and the direction in which steps move it.
double leaf_number(int which, bool positive, std::int64_t index);
double leaf_direction(int which, std::int64_t index);

class trial {
 public:
  trial(context& ctx_of_rank, results& to, double step_taken) : ctx(ctx_of_rank), to_(to), step_(step_taken) {}

  context& ctx;

  template <any_tensor X>
  X leaf(int which, std::initializer_list<std::int64_t> global, bool positive = false) {
    X x = made<X>(which, global, positive, step_);
    x.requires_grad();
    return x;
  }
  template <any_tensor X>
  X constant(int which, std::initializer_list<std::int64_t> global, bool positive = false) {
    return made<X>(which, global, positive, 0);
  }
  /// Row numbers from 0 to rows - 1; in padding, a number that is none.
  template <any_tensor X>
  X ids(int which, std::initializer_list<std::int64_t> global, int rows) {
    const X x = generate<X>(ctx, global, [&](std::int64_t i) {
      return std::min(rows - 1, static_cast<int>((leaf_direction(which, i) + 1) / 2 * rows));
    });
    poison(x, 1 << 30);
    return x;
  }

  /// x's numbers, for comparison.
  template <any_tensor X>
  void look(const std::string& name, const X& x) {
    const auto* share = untyped(x).held().template as<typename X::element_type>();
    std::vector<double> numbers(share, share + untyped(x).held().elements());
    const holds kinds[] = {state_on<layout_of<X>, dp>.kind, state_on<layout_of<X>, tp>.kind};
    to_.add(ctx, name, detail::placed(x), kinds, numbers);
  }
  /// backward, the loss being looked at before.
  template <any_tensor X>
  void carry_back(const std::string& name, const X& loss, double seed) {
    look(name, loss);
    if (ctx.is_first()) to_.carried_back(name, seed);
    backward(loss, seed);
  }
  template <any_tensor X>
  void gradient(const std::string& name, int which, const X& x) {
    if (!x.has_grad()) return;
    look("gradient of " + name, x.grad());
    if (ctx.is_first()) to_.leaves["gradient of " + name] = which;
  }
  void forget_gradients() {
    if (ctx.is_first()) to_.forget_gradients();
  }
  /// Numbers are rounded to this on the way, so sums in another order differ by as much.
  void rounds_to(double tolerance) {
    if (ctx.is_first()) to_.tolerance = tolerance;
  }

 private:
  template <any_tensor X>
  X made(int which, std::initializer_list<std::int64_t> global, bool positive, double step) {
    const X x = generate<X>(
        ctx, global, [&](std::int64_t i) { return leaf_number(which, positive, i) + step * leaf_direction(which, i); });
    poison(x, std::numeric_limits<double>::quiet_NaN());
    return x;
  }
  template <any_tensor X>
  void poison(const X& x, double number) {
    using Backend = typename X::backend;
    const local_array poisoned = detail::with_padding<Backend>(ctx, untyped(x).held(), detail::valid_part(x), number);
    Backend::copy_bytes(ctx.template queue<Backend>(), poisoned.data, untyped(x).held().data,
                        untyped(x).held().bytes());
  }

  results& to_;
  double step_;
};

/// As many shifts as there are ranks: every slice is back where it was.
template <mesh_axis A, any_tensor X>
X whole_turn(X x) {
  const int ranks = untyped(x).ctx->template degree<A>();
  for (int i = 0; i < ranks; ++i) x = shift<A>(x);
  return x;
}

struct program {
  int number;
  void (*run)(trial&);
};
extern const std::vector<program> all_programs;

}  // namespace programs
