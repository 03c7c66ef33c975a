// model.safetensors.index.json of a folder with two files. What is read has each tensor of its weight_map, and no
// other, with the bytes that the file has which the map names.
#include <weft/io/safetensors.hpp>

#include "../temporary.hpp"
#include "mutations.hpp"
#include "target.hpp"

using namespace weft;

namespace {

const std::string& folder() {
  static const weft_test::temporary_folder here;
  static const bool made = [] {
    int value = 0;
    for (const char* file : {"one", "two"}) {
      safetensors_header h;
      for (const char* name : {"a", "b", "c"})
        if (*name != (value == 0 ? 'c' : 'a')) h.tensors.push_back({name, &safetensors_types[4], {1}});
      const std::string header = write_safetensors_header(h, file);
      write_file(here / (file + std::string(".safetensors")), header + std::string(2, static_cast<char>(++value)));
    }
    return true;
  }();
  weft_fuzz::held(made, "no folder");
  return here.path();
}

}  // namespace

std::vector<std::string> weft_fuzz::seeds() {
  return {R"({"metadata":{"total_size":3},"weight_map":{"a":"one.safetensors","b":"two.safetensors",)"
          R"("c":"two.safetensors"}})",
          R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors"}})", R"({"weight_map":{}})"};
}
std::string weft_fuzz::mutated(std::string input, random_numbers& random) { return mutated_json(input, random); }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  write_file(folder() + "/model.safetensors.index.json", text);
  return weft_fuzz::counted(weft_fuzz::refused(folder(), [&] {
    const safetensors read(folder());
    const nlohmann::json map = parse_json(text, "").at("weight_map");
    weft_fuzz::held(map.size() == read.tensors().size(), "another number of tensors than the index has");
    for (const auto& [name, file] : map.items()) {
      const mapped_tensor* const t = read.find(name);
      weft_fuzz::held(t && *t->data == (file == "one.safetensors" ? 1 : 2), "a tensor that isn't its file's");
    }
  }));
}
