// tokens TOKENIZER.json TEXTS OUT: the tokens of each text, with those that are put around it, and what they are as a
// text again. Records are a 4-byte length and bytes; of OUT, tokens of 4 bytes and a text by turns.
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <weft/io/tokenizer.hpp>

namespace {

void add(std::string& to, const void* bytes, std::size_t n) {
  const auto length = static_cast<std::uint32_t>(n);
  to.append(reinterpret_cast<const char*>(&length), sizeof length).append(static_cast<const char*>(bytes), n);
}

}  // namespace

int main(int count, char** words) try {
  weft::require(count == 4, "tokens TOKENIZER.json TEXTS OUT");
  const weft::tokenizer t(words[1]);
  const std::string texts = weft::read_file(words[2]);
  std::string out;
  for (std::size_t at = 0; at < texts.size();) {
    std::uint32_t length;
    std::memcpy(&length, texts.data() + at, sizeof length);
    const std::vector<std::int32_t> tokens = t.encode(texts.substr(at + sizeof length, length));
    add(out, tokens.data(), tokens.size() * sizeof(std::int32_t));
    const std::string back = t.decode(tokens, true);
    add(out, back.data(), back.size());
    at += sizeof length + length;
  }
  weft::write_file(words[3], out);
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
