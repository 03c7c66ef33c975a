// The strategies that the program holds, each by the names of its parts, with the functions that plan it. A form costs
// the compiler four seconds, another sharding or checkpointing of it a tenth of that. Invariant: what is planned is the
// strategy that type() says.
#pragma once

#include <string>
#include <vector>

#include <weft/plan/report.hpp>
#include <weft/policy/mesh.hpp>

#include "question.hpp"

namespace weft_plan {

/// A thing to do with a model, by the form of its projections.
struct task {
  bool trains;
  const char* name;  // for --train or --text
  const char* form;  // the policy's type, or "dense"
  const char* says;  // in a table's title
};
/// In the order of the tables.
const std::vector<task>& tasks();

/// A strategy, of one family of models. It shards the sequence over tp when it trains (sequence_parallel), which
/// changes nothing where tp is 1.
struct way {
  const task* does;
  std::string sharding, checkpointing;
  /// One rank of each stage, the first of it.
  std::vector<weft::rank_plan> (*plan)(const asked_model&, const question&, const weft::degrees&);

  /// As a program would write it.
  std::string type(const weft::degrees&) const;
};

std::vector<way> llama_ways(), gpt2_ways();  // a file each
/// Those of the model's family.
const std::vector<way>& ways_of(const asked_model&);

const std::vector<std::string>& sharding_names();
const std::vector<std::string>& checkpointing_names();  // from no recomputation to all

/// How many micro-batches a step of q has on so many data-parallel ranks. Throws weft::failure where the batch doesn't
/// divide.
int micro_batches_of(const question& q, int dp);

}  // namespace weft_plan
