// What train_llama is told. Invariant: once checked, every number is the one that is used, and strategies have one name
// each.
#pragma once

#include <string>
#include <vector>

#include <weft/nn/llama.hpp>
#include <weft/optim/adamw.hpp>
#include <weft/policy/mesh.hpp>
#include <weft/train/sampling.hpp>
#include <weft/train/training.hpp>

namespace train_llama {

struct settings {
  std::string sharding = "zero3", precision = "bf16", checkpointing = "none";
  bool sequence_parallel = false;
  weft::degrees degrees = {.dp = 2, .tp = 2};
  int ranks = 0;    // 0: as many as the degrees take
  int threads = 0;  // cores a rank; 0: the machine's, split
  std::uint64_t seed = 1;

  weft::llama_config model = {.layers = 4, .hidden = 192, .heads = 6, .kv_heads = 2, .vocab = 256, .max_seq = 128};
  weft::adamw optimizer = {.lr = 2e-3};
  weft::training plan = {.steps = 1500, .batch = 16, .schedule = {.warmup = 40}};

  std::string data, out;
  std::string on_non_finite = "stop";  // the name of plan.watch.on_non_finite
  double held_out = 0.05;

  std::string prompt = "/// ";
  weft::sampling sample = {.tokens = 300, .temperature = 0.7, .top_k = 40};
};

/// "zero3-bf16", "replicated-fp32-full-sp": sharding, precision, then checkpointing and sequence parallelism where they
/// are on.
std::string name_of(const settings&);
/// Every name, each with the function that trains under it.
struct choice {
  std::string name;
  void (*run)(settings);
};
const std::vector<choice>& choices();
std::vector<choice> fp32_strategies(), bf16_strategies();  // a file each
/// Sets the four slots that a strategy's name stands for. Throws weft::failure that lists the names, the nearest first.
void set_strategy(settings&, const std::string& name);
/// Throws weft::failure that lists `valid`, the nearest first, unless `given` is among them.
void check_name(const char* what, const std::string& given, std::vector<std::string> valid);

/// Fills in what was left to be derived; throws weft::failure when the settings don't fit together.
void resolve(settings&);
/// The settings as JSON, indented.
std::string to_json(const settings&);

}  // namespace train_llama
