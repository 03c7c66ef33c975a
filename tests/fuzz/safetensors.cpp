// The header of a safetensors file. What is read is written and read again: the same tensors and metadata, and a second
// writing has the same bytes.
#include <weft/io/safetensors.hpp>

#include "../source_folder.hpp"
#include "mutations.hpp"
#include "target.hpp"

using namespace weft;

namespace {

std::string with_length(const std::string& header, const std::string& data) {
  std::string out(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(std::uint64_t{header.size()} >> 8 * i);
  return out + header + data;
}

void check_again(const safetensors_header& read, std::size_t bytes) {
  std::uint64_t end = 0;
  for (const safetensors_entry& e : read.tensors) {
    weft_fuzz::held(e.begin == end && e.end >= e.begin, "tensors that don't lie one behind another");
    end = e.end;
  }
  weft_fuzz::held(read.bytes + end == bytes, "tensors that don't fill the file");
  safetensors_header out = read;
  const std::string text = write_safetensors_header(out, "again.safetensors");
  safetensors_header again = read_safetensors_header(text + std::string(end, '\0'), "again.safetensors");
  weft_fuzz::held(again.metadata == read.metadata, "other metadata when written and read again");
  const auto described = [](const safetensors_header& h) {
    std::map<std::string, std::pair<const safetensors_type*, std::vector<std::uint64_t>>> all;
    for (const safetensors_entry& e : h.tensors) all[e.name] = {e.type, e.shape};
    return all;
  };
  weft_fuzz::held(described(again) == described(read), "other tensors when written and read again");
  weft_fuzz::held(write_safetensors_header(again, "again.safetensors") == text, "other bytes when written again");
}

}  // namespace

std::vector<std::string> weft_fuzz::seeds() {
  std::vector<std::string> out{
      with_length("{}      ", ""),
      with_length(R"({"__metadata__":{"format":"np"},"a":{"dtype":"I64","shape":[4],"data_offsets":[0,32]},)"
                  R"("b.c":{"dtype":"F64","shape":[],"data_offsets":[32,40]},)"
                  R"("e":{"dtype":"BF16","shape":[2,0,3],"data_offsets":[40,40]},)"
                  R"("f":{"dtype":"F4","shape":[2,3],"data_offsets":[40,43]}})",
                  std::string(43, 'x'))};
  for (const char* name : {"llama3/model", "adapters/adapter_model", "gpt2_nf4/model"})
    out.push_back(read_file(weft_test::source_file("pretrained/" + std::string(name) + ".safetensors")));
  return out;
}

std::string weft_fuzz::mutated(std::string input, random_numbers& random) {
  std::uint64_t n = 0;
  for (std::size_t i = 8; i-- > 0 && input.size() >= 8;) n = n << 8 | static_cast<unsigned char>(input[i]);
  if (input.size() < 8 || n > input.size() - 8 || random.one_in(8)) {
    for (std::size_t k = random.changes(); k > 0; --k) change_bytes(input, random);
    return input;
  }
  const std::string header = mutated_json(input.substr(8, n), random);
  std::string data = input.substr(8 + n);
  if (random.one_in(8)) data.resize(data.size() + 9 - random.below(std::min<std::size_t>(data.size() + 1, 16)));
  return random.one_in(8) ? input.substr(0, 8) + header + data : with_length(header, data);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  safetensors_header header;
  const bool no = weft_fuzz::refused("f.safetensors", [&] { header = read_safetensors_header(file, "f.safetensors"); });
  if (!no) check_again(header, size);
  return weft_fuzz::counted(no);
}
