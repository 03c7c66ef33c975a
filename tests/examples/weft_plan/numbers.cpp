// What plan_training and plan_generation say of some of weft-plan's strategies, for weft_plan_test.sh: a line each, the
// beginning of the answer in its JSON, a tab, and the plans of its stages. Arguments: the folders of a Llama and a
// GPT-2. Invariant: every rank of a stage takes what the first of it does, or the program ends with 1.
#include <cstdio>

#include <weft/io/gpt2_folder.hpp>
#include <weft/io/llama_folder.hpp>
#include <weft/plan/generation.hpp>
#include <weft/plan/training.hpp>
#include <weft/weft.hpp>

using namespace weft;

namespace {

using axes = mesh<pp, dp, tp>;

void say(const char* strategy, const degrees& d, const std::vector<rank_plan>& stages) {
  std::printf("\"strategy\":\"strategy<mesh<pp, dp, tp>, %s>\",\"dp\":%d,\"tp\":%d,\"pp\":%d\t", strategy, d.dp, d.tp,
              d.pp);
  for (const rank_plan& p : stages) std::printf("%s%s", &p == &stages[0] ? "" : ",", json_of(p).c_str());
  std::printf("\n");
}

// One sequence at a time, of 32 tokens, 4 a step.
template <template <class> class Model, class S, class Config>
void train(const char* name, const Config& c, const degrees& d) {
  say(name, d, plan_stages<Model, S>(c, d, {.batch = 4, .micro_batches = 4 / d.dp, .seq = 32}));
}
template <template <class> class Model, class S, class Config>
void write(const char* name, const Config& c, const degrees& d) {
  std::vector<rank_plan> stages;
  const int ranks = static_cast<int>(d.product()), of_stage = ranks / d.pp;
  for (int rank = 0; rank < ranks; ++rank) {
    const rank_plan p = plan_generation<Model, S>(c, d, {.prompt = 24, .tokens = 8}, rank);
    if (rank % of_stage == 0) stages.push_back(p);
    require(p.memory.reserved == stages.back().memory.reserved, "rank ", rank, " of a stage takes ", p.memory.reserved,
            " bytes, and the first of it ", stages.back().memory.reserved);
  }
  say(name, d, stages);
}

}  // namespace

int main(int, char** argv) {
  const llama_config l = read_llama_config(argv[1]);
  const gpt2_config g = read_gpt2_config(argv[2]);
  // On one rank of tp the program's sequence_parallel changes nothing, and isn't named.
  train<llama, strategy<axes, zero2, bf16_mixed>>("zero2, bf16_mixed", l, {.dp = 2, .pp = 2});
  train<llama, strategy<axes, zero1, bf16_mixed, checkpoint_selective>>("zero1, bf16_mixed, checkpoint_selective", l,
                                                                        {.dp = 4});
  train<llama, strategy<axes, replicated, bf16_mixed, checkpoint_full, sequence_parallel, lora<16>>>(
      "replicated, bf16_mixed, checkpoint_full, sequence_parallel, lora<16>", l, {.dp = 2, .tp = 2});
  train<llama, strategy<axes, zero3, bf16_mixed, checkpoint_full, nf4<lora<16>>>>(
      "zero3, bf16_mixed, checkpoint_full, nf4<lora<16>>", l, {.dp = 4});
  train<gpt2, strategy<axes, zero3, bf16_mixed, checkpoint_selective, sequence_parallel>>(
      "zero3, bf16_mixed, checkpoint_selective, sequence_parallel", g, {.dp = 2, .tp = 2});
  // Four ranks share two key and value heads.
  train<llama, strategy<axes, replicated, bf16_mixed, sequence_parallel, chunked_loss<8>, shared_kv<>>>(
      "replicated, bf16_mixed, sequence_parallel, chunked_loss<8>, shared_kv<>", l, {.tp = 4});
  train<llama, strategy<axes, replicated, bf16_mixed, checkpoint_full, sequence_parallel, int8<shared_kv<lora<16>>>>>(
      "replicated, bf16_mixed, checkpoint_full, sequence_parallel, int8<shared_kv<lora<16>>>", l, {.tp = 4});
  train<llama, strategy<axes, zero3, bf16_mixed, checkpoint_selective, chunked_loss<8>, lora<16>>>(
      "zero3, bf16_mixed, checkpoint_selective, chunked_loss<8>, lora<16>", l, {.dp = 2, .pp = 2});
  train<gpt2, strategy<axes, replicated, bf16_mixed, sequence_parallel, chunked_loss<8>>>(
      "replicated, bf16_mixed, sequence_parallel, chunked_loss<8>", g, {.tp = 4});
  write<llama, strategy<axes, replicated, bf16_mixed, int8<shared_kv<>>>>("replicated, bf16_mixed, int8<shared_kv<>>",
                                                                          l, {.tp = 4});
  write<llama, strategy<axes, zero3, bf16_mixed, nf4<>>>("zero3, bf16_mixed, nf4<>", l, {.dp = 4});
  write<llama, strategy<axes, replicated, bf16_mixed>>("replicated, bf16_mixed", l, {.tp = 2, .pp = 2});
  write<gpt2, strategy<axes, replicated, bf16_mixed, int8<>>>("replicated, bf16_mixed, int8<>", g, {.tp = 4});
}
