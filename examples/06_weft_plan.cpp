// weft-plan: what a rank would hold and send, for a model that is a config.json and devices that needn't be there. The
// strategies are template arguments; the program holds sixty of each family (weft_plan/ways.hpp), and plans those that
// were asked about. Errors: one sentence on stderr; exit code 2 for options that aren't there or want a
// number, 3 where nothing fits, 1 for the rest.
#include <cstdio>

#include <CLI/CLI.hpp>

#include <weft/io/file.hpp>

#include "shared/command_line.hpp"
#include "weft_plan/advice.hpp"
#include "weft_plan/report.hpp"
#include "weft_plan/sign_of_life.hpp"

using namespace weft_plan;

int main(int argc, char** argv) {
  const auto complain = [](const std::string& sentence) { std::fprintf(stderr, "weft-plan: %s\n", sentence.c_str()); };
  question q;
  std::string model, train, text, sharding, checkpointing, loss, memory;
  bool json = false, whole = false;

  CLI::App app(
      "Plans, without computing: how much memory a rank takes to write text from a model or to train it, under which "
      "strategies that fits, and what it sends.\nThe exit code is 3 where nothing fits.",
      "weft-plan");
  app.get_formatter()->column_width(34);
  app.option_defaults()->always_capture_default();
  app.option_defaults()->group("Question");
  app.add_option("MODEL", model, "a folder that has a config.json of transformers, or such a file");
  app.add_option("--train", train, "all (weights), lora, int8 or nf4 (lora beside weights in few bits), by commas");
  app.add_option("--text", text, "bf16, int8 or nf4 weights, by commas; without --train and --text: all of both");

  app.option_defaults()->group("Devices");
  app.add_option("--memory", memory,
                 "what a rank has for tensors and their gaps: 23GiB, 80GB; without it nothing is judged");
  app.add_option("--ranks", q.ranks, "devices, a rank each [dp x tp x pp]");
  app.add_option("--dp", q.dp, "data-parallel ranks; 0: all degrees that --ranks leave open");
  app.add_option("--tp", q.tp, "tensor-parallel ranks; 0: up to 8");
  app.add_option("--pp", q.pp, "pipeline stages; 0: up to 8");
  app.add_option("--threads", q.threads, "cores a rank, where it is a CPU's: its kernels' scratch");

  app.option_defaults()->group("Strategy (bf16 with AdamW in fp32)");
  app.add_option("--sharding", sharding, "replicated, zero1, zero2, zero3, by commas [all]");
  app.add_option("--checkpointing", checkpointing,
                 "none, selective (what is cheap to recompute), full (each layer), by commas [all]");
  app.add_option("--loss", loss,
                 "whole, chunked (an eighth of a sequence at a time; under replicated, zero3), by commas [whole]");

  app.option_defaults()->group("Step");
  app.add_option("--batch", q.batch, "sequences a step, over all ranks; 0: one a rank");
  app.add_option("--micro-batches", q.micro_batches,
                 "parts a step is computed in; 0: so many that a data-parallel rank has one sequence at a time");
  app.add_option("--seq", q.seq, "tokens a sequence; 0: the model's most, up to 4096");

  app.option_defaults()->group("Text");
  app.add_option("--prompt", q.prompt, "tokens that are given; 0: 1024, fewer where the model takes fewer");
  app.add_option("--tokens", q.tokens, "tokens that are added; 0: 128, fewer where the model takes fewer");

  app.option_defaults()->group("Output");
  app.add_option("--rows", q.rows,
                 "rows of each table, without those that another beats in all; 0: all that there are");
  app.add_flag("--table", whole, "each table's first row as a whole plan, all stages and collectives");
  app.add_flag("--json", json, "all that was planned as JSON, in bytes");
  app.set_version_flag("--version", "weft-plan of Weft " WEFT_VERSION, "print the version, and stop");

  if (const std::optional<int> ends = examples::parse(app, argc, argv, complain)) return *ends;
  try {
    weft::require(!model.empty(), "there is no model to plan; name a folder that has a config.json, or such a file");
    if (!memory.empty()) q.memory = read_bytes(memory);
    if (!train.empty()) q.train = read_list("--train", train, {"all", "lora", "int8", "nf4"});
    if (!text.empty()) q.text = read_list("--text", text, {"bf16", "int8", "nf4"});
    if (!sharding.empty()) q.sharding = read_list("--sharding", sharding, sharding_names());
    if (!checkpointing.empty()) q.checkpointing = read_list("--checkpointing", checkpointing, checkpointing_names());
    if (!loss.empty()) q.loss = read_list("--loss", loss, loss_names());
    const asked_model m = read_model(model);
    resolve(q, m);
    std::vector<answers> all;
    {
      sign_of_life sign;
      all = search(m, q, [&](std::size_t done, std::size_t parts) { sign.tell(done, parts); });
      for (answers& of : all) of.helps = advice_for(of, m, q);
    }

    bool any = false, any_fits = false;
    std::string why;
    for (const answers& of : all) {
      any |= !of.planned.empty(), any_fits |= of.fit > 0;
      for (const answer& a : of.refused) why = why.empty() ? a.refused : why;
    }
    weft::require(any, why.empty() ? "there is no strategy here of what was asked; --help says which there are" : why);
    weft::write_all(weft::owned_file(stdout, [](std::FILE*) { return 0; }), "stdout",
                    json ? json_of(all, m, q) : tables_of(all, m, q, whole));
    return any_fits ? 0 : 3;
  } catch (const std::exception& e) {
    complain(e.what());
    return 1;
  }
}
