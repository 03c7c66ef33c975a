// weft-convert: a run's checkpoint to a Hugging Face folder, and such a folder to a checkpoint that runs begin with.
// Errors: one sentence on stderr; exit code 2 for what can't be read on the command line, 1 for the rest.
#include <cstdio>

#include <CLI/CLI.hpp>

#include <weft/train/convert_checkpoint.hpp>
#include <weft/train/keep_checkpoints.hpp>
#include <weft/weft.hpp>

#include "shared/command_line.hpp"

#ifndef WEFT_VERSION  // compiled without CMake
#define WEFT_VERSION "0"
#endif

namespace {

bool has(const std::string& folder, const char* name) {
  std::error_code none;
  return std::filesystem::exists(folder + '/' + name, none);
}

// The checkpoint that a folder is or holds, of a run or of keep_checkpoints the newest; empty: it is a model's folder.
std::string checkpoint_of(const std::string& from) {
  if (has(from, "manifest.json")) return from;
  if (has(from, "checkpoints")) return weft::newest_checkpoint(from + "/checkpoints");
  if (has(from, "config.json") || has(from, "model.safetensors") || has(from, "model.safetensors.index.json"))
    return {};
  std::error_code none;
  if (!std::filesystem::is_directory(from, none))
    throw weft::file_error("the folder " + from + " isn't there; give a checkpoint, a run's folder or a model's");
  return weft::newest_checkpoint(from);
}

}  // namespace

int main(int argc, char** argv) {
  const auto complain = [](const std::string& sentence) {
    std::fprintf(stderr, "weft-convert: %s\n", sentence.c_str());
  };
  std::string from, to, like, type = "fp32";
  CLI::App app(
      "Writes the weights of a checkpoint of Weft's to a Hugging Face folder, adapters merged, or those of such a "
      "folder to a checkpoint to begin with.",
      "weft-convert");
  app.get_formatter()->column_width(30);
  app.option_defaults()->always_capture_default();
  app.add_option("FROM", from, "a checkpoint, or a run's folder, whose newest is taken; or a Hugging Face folder")
      ->required();
  app.add_option("TO", to, "the folder that is written; a checkpoint's must not be there")->required();
  auto* const types = app.add_option("--type", type, "of a Hugging Face folder's weights: fp64, fp32, bf16 or fp16");
  auto* const likes = app.add_option("--like", like,
                                     "a Hugging Face folder whose tokenizer is taken along, and its config.json "
                                     "where the checkpoint doesn't say of which model it is");
  app.set_version_flag("--version", "weft-convert of Weft " WEFT_VERSION, "print the version, and stop");
  const std::map<std::string, weft::dtype> dtypes{
      {"fp64", weft::dtype::f64}, {"fp32", weft::dtype::f32}, {"bf16", weft::dtype::bf16}, {"fp16", weft::dtype::f16}};
  types->check(CLI::IsMember(dtypes));
  if (const std::optional<int> ends = examples::parse(app, argc, argv, complain)) return *ends;
  try {
    const std::string checkpoint = checkpoint_of(from);
    if (!checkpoint.empty()) {
      weft::checkpoint_to_pretrained(checkpoint, to, dtypes.at(type), {.like = like});
      std::fprintf(stderr, "weft-convert: wrote the weights of %s to %s\n", checkpoint.c_str(), to.c_str());
    } else {
      weft::require(types->count() + likes->count() == 0,
                    "--type and --like are for a Hugging Face folder that is written, and ", from,
                    " is one; leave them out, or give a checkpoint");
      weft::pretrained_to_checkpoint(from, to);
      std::fprintf(stderr, "weft-convert: wrote the weights of %s to the checkpoint %s\n", from.c_str(), to.c_str());
    }
  } catch (const std::exception& e) {
    complain(e.what());
    return 1;
  }
}
