// The strategies that the program holds, each by the names of its parts, with the functions that plan it. A form costs
// the compiler four seconds, another sharding, checkpointing or loss of it a tenth of that. Invariant: what is planned
// is the strategy that type() says.
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
  const char* name;    // for --train or --text
  const char* form;    // the policy's type, or "dense"
  const char* shared;  // where ranks share key and value heads
  const char* says;    // in a table's title
};
/// In the order of the tables.
const std::vector<task>& tasks();

/// A strategy, of one family of models. It shards the sequence over tp when it trains (sequence_parallel), which
/// changes nothing where tp is 1.
struct way {
  const task* does;
  bool shares_kv;  // shared_kv<>: ranks along tp share key and value heads
  std::string sharding, checkpointing, loss;
  /// One rank of each stage, the first of it.
  std::vector<weft::rank_plan> (*plan)(const asked_model&, const question&, const weft::degrees&);

  /// As a program would write it.
  std::string type(const weft::degrees&) const;
};

// A file each, which a compiler takes in less time and memory than one of them all.
std::vector<way> llama_ways(), llama_lora_ways(), llama_int8_ways(), llama_nf4_ways();
std::vector<way> llama_shared_kv_ways(), llama_shared_kv_lora_ways(), llama_shared_kv_int8_ways(),
    llama_shared_kv_nf4_ways();
std::vector<way> gpt2_ways(), gpt2_lora_ways(), gpt2_int8_ways(), gpt2_nf4_ways();
/// Those of the model's family, on so many ranks along tp: where these don't divide its key and value heads, those that
/// share them.
const std::vector<way>& ways_of(const asked_model&, int tp);

const std::vector<std::string>& sharding_names();
const std::vector<std::string>& checkpointing_names();  // from no recomputation to all
const std::vector<std::string>& loss_names();

/// How many micro-batches a step of q has on so many data-parallel ranks. Throws weft::failure where the batch doesn't
/// divide.
int micro_batches_of(const question& q, int dp);

}  // namespace weft_plan
