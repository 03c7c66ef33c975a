// Trains a byte-level Llama on a text. The strategy is a template argument of everything that computes; the program
// holds forty-eight of them (train_llama/*.cpp) and picks one by name. train_llama_mpi is the same program with eight
// strategies whose ranks are processes (train_llama/over_mpi/): mpirun -n 4 train_llama_mpi --data FILE;
// train_llama_cuda has all forty-eight on a GPU, which its ranks share (train_llama/on_cuda/): run.sh --backend cuda.
// Errors: one sentence on stderr; exit code 2 for what can't be read on the command line, 130 for a run that was asked
// to stop, 1 for the rest, an output that nobody takes among it.
#include <cstdio>
#include <cstdlib>

#include <CLI/CLI.hpp>

#include <weft/io/file.hpp>

#include "shared/command_line.hpp"
#include "train_llama/report.hpp"
#include "train_llama/settings.hpp"

using namespace train_llama;

int main(int argc, char** argv) {
  hold_output();
  const started_as own = this_process();
  const bool first = own.rank == 0;  // of several processes one speaks, but for what only another knows
  if (!first && std::freopen("/dev/null", "w", stdout) == nullptr) return 1;
  const auto complain = [&](const std::string& sentence) {
    if (first) std::fprintf(stderr, "%s: %s\n", own.program, sentence.c_str());
  };
  settings s;
  given_strategy given;
  std::string config, backend = own.backend;
  bool sequence_parallel = false, print_config = false, plan = false, plan_json = false;

  CLI::App app(std::string("Trains a byte-level Llama on a text, on ranks that are ") + own.ranks + ".", own.program);
  app.get_formatter()->column_width(34);
  app.option_defaults()->always_capture_default();
  app.option_defaults()->group("Strategy");
  app.add_option("--strategy", given.name, "SHARDING-PRECISION[-selective or -full][-sp] by one name [zero3-bf16]");
  app.add_option("--sharding", given.sharding, "replicated, zero1, zero2 or zero3");
  app.add_option("--precision", given.precision, "fp32 or bf16");
  app.add_option("--checkpointing", given.checkpointing,
                 "none, selective (what is cheap to recompute) or full (each layer)");
  app.add_flag("--sequence-parallel", sequence_parallel, "shard the sequence over tp between blocks");
  app.add_option("--dp", s.degrees.dp, "data-parallel ranks");
  app.add_option("--tp", s.degrees.tp, "tensor-parallel ranks");
  app.add_option("--pp", s.degrees.pp, "pipeline stages; 1F1B over --micro-batches");
  app.add_option("--backend", backend, "what computes: cpu, or cuda, a GPU; examples/run.sh builds the program for it");
  app.add_option("--ranks", s.ranks, "ranks in all; checked against dp x tp x pp");
  app.add_option("--threads", s.threads, "cores a rank; 0: the machine's, split");

  app.option_defaults()->group("Model");
  app.add_option("--layers", s.model.layers, "layers");
  app.add_option("--hidden", s.model.hidden, "width");
  app.add_option("--heads", s.model.heads, "query heads");
  app.add_option("--kv-heads", s.model.kv_heads, "key and value heads; 0: as many as heads");
  app.add_option("--head-dim", s.model.head_dim, "width of a head; 0: hidden / heads");
  app.add_option("--ffn", s.model.ffn, "inner width of the feed-forward blocks; 0: 8/3 of hidden");
  app.add_flag("--tied", s.model.tied_embeddings, "one table for input and output embeddings");
  app.add_flag("--qkv-bias", s.model.qkv_bias, "biases of queries, keys and values, as in Qwen 2");

  app.option_defaults()->group("Run");
  app.add_option("--data", s.data, "the text, any file");
  app.add_option("--out", s.out, "folder for the run's files; a number is added if it exists [runs/STRATEGY-dpN-tpN]");
  app.add_option("--steps", s.plan.steps, "optimizer steps");
  app.add_option("--batch", s.plan.batch, "sequences a step, over all ranks");
  app.add_option("--micro-batches", s.plan.micro_batches, "parts a step is computed in");
  app.add_option("--seq", s.model.max_seq, "tokens a sequence");
  app.add_option("--seed", s.seed, "of weights, batches and sample");
  app.add_option("--held-out", s.held_out, "share of the text kept for validation");
  app.add_option("--validate-every", s.plan.validate_every, "steps; 0: at the end only");
  app.add_option("--save-every", s.save_every, "steps from checkpoint to checkpoint; the end has one too; 0: none");
  app.add_option("--keep", s.keep, "checkpoints that stay, the newest");
  app.add_option("--keep-every", s.keep_every, "and those of each step that this divides; 0: no others");
  app.add_option(
      "--resume", s.resume,
      "folder of a run: goes on from its newest checkpoint, with its settings, which other options override");

  app.option_defaults()->group("Monitor");
  app.add_option("--log-every", s.plan.print_every, "steps from line to line on stdout; metrics.jsonl has all");
  app.add_option("--watch-every", s.plan.watch.every, "steps between statistics of every layer; 0: none");
  app.add_option("--on-non-finite", s.on_non_finite, "NaN or infinity: stop, skip the step or zero gradients");
  app.add_option("--spike", s.plan.watch.spike_deviations, "deviations that make a loss a spike; 0: none is");

  app.option_defaults()->group("Optimizer");
  app.add_option("--lr", s.optimizer.lr, "highest learning rate");
  app.add_option("--warmup", s.plan.schedule.warmup, "steps of linear warm-up; a cosine follows");
  app.add_option("--weight-decay", s.optimizer.weight_decay, "of matrices");
  app.add_option("--clip", s.plan.clip_norm, "highest gradient norm; 0: no clipping");

  app.option_defaults()->group("Sample");
  app.add_option("--prompt", s.prompt, "what the sample begins with");
  app.add_option("--sample-tokens", s.sample.tokens, "length; 0: no sample");
  app.add_option("--temperature", s.sample.temperature, "0: always the likeliest");
  app.add_option("--top-k", s.sample.top_k, "0: all");
  app.add_option("--top-p", s.sample.top_p, "1: all");
  app.add_option("--repetition-penalty", s.sample.repetition_penalty, "1: none");

  app.option_defaults()->group("Options");
  app.add_option("--config", config, "settings in a file as --print-config writes it; other options override them");
  app.add_flag("--print-config", print_config, "print all settings as JSON, and stop");
  app.add_flag("--plan", plan,
               "print what each stage's ranks would hold and send, and stop: needs no text and no ranks");
  app.add_flag("--plan-json", plan_json, "the same as JSON");
  app.set_version_flag("--version", std::string(own.program) + " of Weft " WEFT_VERSION, "print the version, and stop");

  examples::check_values(app, "--prompt");
  app.get_option("--seed")->check([](const std::string& value) {
    return value.find('-') == std::string::npos ? std::string() : "it is " + value + ", and has to be 0 or above";
  });

  const std::vector<std::string> words = examples::words_of(argc, argv);
  const auto parse = [&] { app.parse(std::vector<std::string>(words)); };

  try {
    parse();
    weft::require(config.empty() || s.resume.empty(),
                  "--config and --resume both give settings; leave one of them out");
    if (!s.resume.empty()) config = s.resume + "/config.json";
    if (!config.empty()) {
      s = settings();
      read_config(s, config);
      parse();  // once more, over what the file says
    }
  } catch (const CLI::ParseError& e) {
    return examples::exit_of(app, e, complain);
  } catch (const std::exception& e) {
    complain(e.what());
    return 1;
  }
  try {
    if (app.count("--sequence-parallel") > 0) given.sequence_parallel = sequence_parallel;
    examples::check_name("backend", backend, {"cpu", "cuda"});
    weft::require(backend == own.backend, "--backend is ", backend, ", and ", own.program, " computes on ", own.backend,
                  "; examples/run.sh --backend ", backend, " builds and runs the program for it");
    set_strategy(s, given, "--");
    s.sample.seed = s.seed;
    resolve(s);
    weft::require(print_config + plan + plan_json <= 1,
                  "--print-config, --plan and --plan-json print one thing each, and stop; leave one of them");
    if (print_config || plan || plan_json) {
      weft::write_all(weft::owned_file(stdout, [](std::FILE*) { return 0; }), "stdout",
                      print_config ? to_json(s) : text_of(plan_of(s), plan_json));
      return 0;
    }
    if (const char* const unless_given = std::getenv("TRAIN_LLAMA_DATA"); unless_given && s.data.empty())
      s.data = unless_given;
    weft::require(!s.data.empty(),
                  "there is no text to train on; give one with --data FILE (examples/run.sh makes one by itself)");
    if (own.require_device) own.require_device();
    for (const choice& c : choices())
      if (c.name == name_of(s)) return said(c.run(s));
    weft::fail("there is no strategy called ", name_of(s));
  } catch (const std::exception& e) {
    complain(sentence_of(e));
    return 1;
  }
}
