// tokenizer.json. What is read gives texts the same tokens twice, and from them the same text; where the JSON's value
// is that of a file that inputs are changed from, they are that file's. A text may be refused, by what Oniguruma gives
// up on.
#include <iterator>

#include <weft/io/tokenizer.hpp>

#include "../source_folder.hpp"
#include "mutations.hpp"
#include "target.hpp"

using namespace weft;

namespace {

constexpr const char* texts[] = {"a ab <s>  b\xFF \xE2\x96\x81 1", "", "  \n12 it's\tab<0x41> \xF0\x9F\x98\x80"};

// The tokens of each text, and the text of these; what is refused, as its sentence.
std::vector<std::string> meaning(const tokenizer& t) {
  std::vector<std::string> out;
  for (const std::string text : texts) {
    std::string said;
    try {
      const auto ids = t.encode(text);
      for (const std::int32_t id : ids) {
        weft_fuzz::held(id >= 0, "a token below 0");
        said += std::to_string(id) + ' ';
      }
      said += t.decode(ids);
    } catch (const failure& e) {
      said = e.what();
    }
    out.push_back(said);
  }
  return out;
}

// The files with a small vocabulary: the steps are where one differs from another, and each try is quick.
std::vector<nlohmann::json> files() {
  std::vector<nlohmann::json> out;
  for (const char* kind : {"gpt2", "llama2", "llama3", "llama3_chat", "metaspace_always", "metaspace_first",
                           "metaspace_never", "prefix_space", "prefixes", "qwen2", "split_contiguous",
                           "split_merged_with_next", "split_merged_with_previous", "split_removed"}) {
    const std::string path = weft_test::source_file("tokenizers/" + std::string(kind) + "/tokenizer.json");
    nlohmann::json file = read_json(path);
    file["model"]["vocab"] = {{"a", 0}, {"b", 1}, {"ab", 2}, {"<unk>", 3}, {"\u0120", 4}, {"<0x41>", 5}, {"##b", 6}};
    file["model"]["merges"] = {"a b"};
    out.push_back(std::move(file));
  }
  return out;
}

}  // namespace

std::vector<std::string> weft_fuzz::seeds() {
  std::vector<std::string> out;
  for (const nlohmann::json& file : files()) out.push_back(file.dump());
  return out;
}
std::string weft_fuzz::mutated(std::string input, random_numbers& random) { return mutated_json(input, random); }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  struct known {
    nlohmann::json file;
    std::vector<std::string> meaning;
  };
  static const std::vector<known> all = [] {
    std::vector<known> out;
    for (nlohmann::json& file : files()) {
      const tokenizer t(file, "f");
      out.push_back({std::move(file), meaning(t)});
    }
    return out;
  }();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  return weft_fuzz::counted(weft_fuzz::refused("tokenizer.json", [&] {
    const nlohmann::json file = parse_json(text, "f/tokenizer.json");
    const tokenizer t(file, "f/tokenizer.json");
    const auto means = meaning(t);
    weft_fuzz::held(meaning(t) == means, "other tokens the second time");
    for (const known& k : all)
      if (k.file == file) weft_fuzz::held(means == k.meaning, "other tokens than the same file's");
  }));
}
