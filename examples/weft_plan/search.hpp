// Planning all that a question leaves open. Invariant: an answer's numbers are its plans' own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "strategies.hpp"

namespace weft_plan {

/// One way under one choice of degrees.
struct answer {
  const way* by;
  weft::degrees degrees;
  std::vector<weft::rank_plan> stages;  // empty: it was refused
  std::string refused;                  // why

  /// What the stage that takes most takes from its device: what it holds at most, and the gaps between tensors.
  const weft::rank_plan& largest() const;
  std::size_t takes() const { return largest().memory.reserved; }
  /// Bytes that a rank receives from others, on the stage that receives most; they are of a step, or of a text.
  std::uint64_t receives() const;
  /// 0: nothing of the layers is computed again; 1: what is cheap; 2: every layer.
  int recomputes() const;
  /// Whether the head is computed again, a piece of the sequence at a time (chunked_loss).
  bool chunked() const { return by->loss == "chunked"; }
};

/// A change to the question under which something fits, and what that takes.
struct advice {
  std::string change;  // "--ranks 8"
  answer then;
};

/// All of one task.
struct answers {
  const task* of;
  std::vector<answer> planned;  // the best first, as search says
  std::vector<answer> refused;
  std::size_t fit = 0;        // of `planned`; all where there is no limit
  std::vector<advice> helps;  // where none fits
};

/// Told now and then, by the thread that asks, how many of how many parts of a search are done.
using progress = std::function<void(std::size_t done, std::size_t all)>;

/// The degrees that a question leaves open, tp and pp of up to 8 unless they are given.
std::vector<weft::degrees> degrees_of(const question&, const asked_model&);
/// One answer; what can't be is refused in it.
answer plan_one(const way&, const asked_model&, const question&, const weft::degrees&);
/// Every task that was asked about. The best come first: those that fit, of these those of fewer stages, since stages
/// wait for each other, then those that receive least, then those that recompute least of the layers, then those that
/// don't recompute the head; those that don't fit, and all where there is no limit, by what they take. Where there is a
/// limit and the question doesn't ask for all rows, a strategy that fits isn't planned again with more recomputation.
std::vector<answers> search(const asked_model&, const question&, const progress& = {});
/// Whether nobody can want `a` beside those before it: one of them takes, receives and recomputes no more, of layers
/// and of the head, and has no more stages, which wait for each other.
bool is_worse_than_one_of(const answer& a, const std::vector<const answer*>& before);

}  // namespace weft_plan
