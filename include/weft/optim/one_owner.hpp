// Whole matrices with one owner each: where the optimizer's state is sharded, a rank's share of a bucket holds whole
// parameters. Invariant: the steps are those of the optimizer it is made of; who computes them differs.
#pragma once

#include <weft/optim/by_shape.hpp>

namespace weft {

/// `Matrices`, an optimizer of whole matrices, over shares that cut through no parameter of its bucket: nothing is
/// gathered before an update, and a matrix is worked on by the rank that stores it, alone. The largest parameters are
/// given out first, each to the share that holds least; every share is then as large as the fullest of them, and what
/// it has less is padding, of the weights, gradients and moments. So it is for few ranks along the storage's axes
/// beside the parameters of a unit. Used as by_shape{one_owner{muon{}}, adamw{}}; checkpoints are those of `Matrices`.
template <matrix_optimizer Matrices>
struct one_owner : Matrices {
  static constexpr bool whole_shares = true;
};
template <class Matrices>
one_owner(Matrices) -> one_owner<Matrices>;

}  // namespace weft
