// Reading config.json, of whichever family it is.
#include <algorithm>
#include <filesystem>

#include <weft/io/gpt2_folder.hpp>
#include <weft/io/llama_folder.hpp>

#include "configuration.hpp"

namespace weft_plan {
namespace {

const char* const families[] = {"llama", "mistral", "qwen2", "qwen3", "gpt2"};

std::string config_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  const std::string file = path + (path.back() == '/' ? "" : "/") + "config.json";
  if (!weft::detail::renames_left(weft::detail::files_of_model(path)).empty()) weft::read_config_json(path);  // throws
  weft::require(fs::exists(file, ignored) || !fs::exists(path + "/adapter_config.json", ignored), "the folder ", path,
                " has adapters alone, no config.json; name the folder of the model that they were trained beside");
  weft::require(fs::exists(file, ignored), "the folder ", path,
                " has no config.json; name a folder as transformers saves a model, or its config.json");
  return file;
}

}  // namespace

asked_model read_model(const std::string& path) {
  asked_model m;
  m.file = config_of(path), m.family = "llama";
  const nlohmann::json said = weft::read_json(m.file);
  if (const auto at = said.is_object() ? said.find("model_type") : said.end(); at != said.end() && at->is_string())
    m.family = at->get<std::string>();
  const std::string family = weft::unpruned_family(m.family);
  const bool known = std::find(std::begin(families), std::end(families), family) != std::end(families);
  weft::require(known, "the file ", m.file, ": its model_type is ", m.family,
                ", a model that the library doesn't have; it has llama, mistral, qwen2, qwen3 and gpt2");
  configuration c;
  if (family == "gpt2")
    c.is = weft::parse_gpt2_config(said, m.file);
  else
    c.is = weft::parse_llama_config(said, m.file);
  std::visit(
      [&](const auto& of) {
        // Every layer is planned, and ids of a batch are made: what no model has would take hours, or all memory.
        weft::require(of.layers <= 1024, "the file ", m.file, " has ", of.layers, " layers; a plan has up to 1024");
        weft::require(of.vocab <= std::int64_t{1} << 24, "the file ", m.file, " has a vocabulary of ", of.vocab,
                      " tokens; a plan has up to ", std::int64_t{1} << 24);
        m.parameters = of.parameters();  // refuses sizes that don't fit together
        m.layers = of.layers, m.hidden = of.hidden, m.positions = of.max_seq;
        if constexpr (requires { of.kv_heads; }) m.kv_heads = of.groups_by_layer();
      },
      c.is);
  m.config = std::make_shared<const configuration>(c);
  return m;
}

}  // namespace weft_plan
