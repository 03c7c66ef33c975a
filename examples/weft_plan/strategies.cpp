// The names of what can be planned.
#include "strategies.hpp"

namespace weft_plan {

const std::vector<task>& tasks() {
  static const std::vector<task> all{
      {true, "all", "dense", "train all of it"},
      {true, "lora", "lora<16>", "train adapters (LoRA, rank 16)"},
      {true, "int8", "int8<lora<16>>", "train adapters beside int8 weights"},
      {true, "nf4", "nf4<lora<16>>", "train adapters beside nf4 weights (QLoRA)"},
      {false, "bf16", "dense", "text from bf16 weights"},
      {false, "int8", "int8<>", "text from int8 weights"},
      {false, "nf4", "nf4<>", "text from nf4 weights"},
  };
  return all;
}

const std::vector<std::string>& sharding_names() {
  static const std::vector<std::string> all{"replicated", "zero1", "zero2", "zero3"};
  return all;
}
const std::vector<std::string>& checkpointing_names() {
  static const std::vector<std::string> all{"none", "selective", "full"};
  return all;
}

const std::vector<way>& ways_of(const asked_model& m) {
  static const std::vector<way> of_llama = llama_ways(), of_gpt2 = gpt2_ways();
  return m.family == "gpt2" ? of_gpt2 : of_llama;
}

std::string way::type(const weft::degrees& d) const {
  std::string out = "strategy<mesh<pp, dp, tp>, " + sharding + ", bf16_mixed";
  if (checkpointing != "none") out += ", checkpoint_" + checkpointing;
  if (does->trains && d.tp > 1) out += ", sequence_parallel";
  const std::string form = does->form;
  return out + (form == "dense" ? "" : ", " + form) + '>';
}

int micro_batches_of(const question& q, int dp) {
  if (q.micro_batches > 0) return q.micro_batches;
  weft::require(q.batch % dp == 0, "a batch of ", q.batch, " sequences doesn't divide among dp = ", dp,
                " ranks; choose a --batch that does");
  return static_cast<int>(q.batch / dp);
}

}  // namespace weft_plan
