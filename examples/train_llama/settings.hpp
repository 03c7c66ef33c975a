// What train_llama is told. Invariant: once checked, every number is the one that is used, and strategies have one name
// each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <weft/nn/llama.hpp>
#include <weft/optim/adamw.hpp>
#include <weft/plan/report.hpp>
#include <weft/policy/mesh.hpp>
#include <weft/train/sampling.hpp>
#include <weft/train/training.hpp>

#include "../shared/names.hpp"

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
  std::int64_t save_every = 500, keep_every = 0;  // checkpoints; 0: none
  int keep = 2;
  std::string resume;                  // the folder of the run that this one goes on from
  std::string on_non_finite = "stop";  // the name of plan.watch.on_non_finite
  double held_out = 0.05;

  std::string prompt = "/// ";
  weft::sampling sample = {.tokens = 300, .temperature = 0.7, .top_k = 40};
};

/// "zero3-bf16", "replicated-fp32-full-sp": sharding, precision, then checkpointing and sequence parallelism where they
/// are on.
std::string name_of(const settings&);
/// Every name, each with the function that trains under it and returns the program's exit code.
struct choice {
  std::string name;
  int (*run)(settings);
};
const std::vector<choice>& choices();
std::vector<choice> fp32_strategies(), bf16_strategies();  // a file each
/// The program's name, what its ranks are, on what they compute, which of them this process runs first, and what throws
/// where there is nothing to compute on, if that may be.
struct started_as {
  const char* program;
  const char* ranks;
  const char* backend;
  int rank;
  void (*require_device)() = nullptr;
};
started_as this_process();
/// What the first rank of each stage would hold and send (plan.cpp).
std::vector<weft::rank_plan> plan_of(const settings&);
/// As tables, or as a JSON array.
std::string text_of(const std::vector<weft::rank_plan>&, bool json);
/// A strategy as it was given: by one name, by its parts, or both; what is empty was not.
struct given_strategy {
  std::string name, sharding, precision, checkpointing;
  std::optional<bool> sequence_parallel;
};
/// Sets the slots that were given. Throws weft::failure where there is no such name, listing those that there are, and
/// where a part isn't what the name says. `prefix` is what stands before a word where it was given: "--" or "FILE: ".
void set_strategy(settings&, const given_strategy&, const std::string& prefix);
using examples::check_name;

/// Fills in what was left to be derived; throws weft::failure when the settings don't fit together.
void resolve(settings&);

// config_file.cpp

/// The settings as JSON, a line each: what read_config takes back, number for number, and under "derived" what follows
/// from them.
std::string to_json(const settings&);
/// Sets what a file that to_json wrote, whole or in part, says. Throws weft::failure that names the file and the key
/// where a key is unknown, is there twice or has a value of another type.
void read_config(settings&, const std::string& path);

}  // namespace train_llama
