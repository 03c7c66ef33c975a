// The names of what can be planned.
#include "strategies.hpp"

#include <algorithm>
#include <initializer_list>

namespace weft_plan {

const std::vector<task>& tasks() {
  static const std::vector<task> all{
      {true, "all", "dense", "shared_kv<>", "train all of it"},
      {true, "lora", "lora<16>", "shared_kv<lora<16>>", "train adapters (LoRA, rank 16)"},
      {true, "int8", "int8<lora<16>>", "int8<shared_kv<lora<16>>>", "train adapters beside int8 weights"},
      {true, "nf4", "nf4<lora<16>>", "nf4<shared_kv<lora<16>>>", "train adapters beside nf4 weights (QLoRA)"},
      {false, "bf16", "dense", "shared_kv<>", "text from bf16 weights"},
      {false, "int8", "int8<>", "int8<shared_kv<>>", "text from int8 weights"},
      {false, "nf4", "nf4<>", "nf4<shared_kv<>>", "text from nf4 weights"},
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

const std::vector<std::string>& loss_names() {
  static const std::vector<std::string> all{"whole", "chunked"};
  return all;
}

namespace {
std::vector<way> joined(std::initializer_list<std::vector<way>> parts) {
  std::vector<way> all;
  for (const std::vector<way>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}
}  // namespace

const std::vector<way>& ways_of(const asked_model& m, int tp) {
  static const auto of_gpt2 = joined({gpt2_ways(), gpt2_lora_ways(), gpt2_int8_ways(), gpt2_nf4_ways()});
  static const auto of_llama = joined({llama_ways(), llama_lora_ways(), llama_int8_ways(), llama_nf4_ways()});
  static const auto sharing = joined(
      {llama_shared_kv_ways(), llama_shared_kv_lora_ways(), llama_shared_kv_int8_ways(), llama_shared_kv_nf4_ways()});
  const auto divides = [tp](std::int64_t heads) { return heads % tp == 0; };
  if (!std::all_of(m.kv_heads.begin(), m.kv_heads.end(), divides)) return sharing;
  return m.kv_heads.empty() ? of_gpt2 : of_llama;
}

std::string way::type(const weft::degrees& d) const {
  std::string out = "strategy<mesh<pp, dp, tp>, " + sharding + ", bf16_mixed";
  if (checkpointing != "none") out += ", checkpoint_" + checkpointing;
  if (does->trains && d.tp > 1) out += ", sequence_parallel";
  if (loss != "whole") out += ", chunked_loss<8>";
  const std::string form = shares_kv ? does->shared : does->form;
  return out + (form == "dense" ? "" : ", " + form) + '>';
}

int micro_batches_of(const question& q, int dp) {
  if (q.micro_batches > 0) return q.micro_batches;
  weft::require(q.batch % dp == 0, "a batch of ", q.batch, " sequences doesn't divide among dp = ", dp,
                " ranks; choose a --batch that does");
  return static_cast<int>(q.batch / dp);
}

}  // namespace weft_plan
