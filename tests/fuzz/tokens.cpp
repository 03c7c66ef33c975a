// Documents of tokens: Megatron's .idx and .bin, and llm.c's .bin. An input is M, four bytes with the length of the
// .idx, the .idx and the .bin; or L and an llm.c file. Documents that are read are written and read again, the same
// ones.
#include <weft/io/token_file.hpp>

#include "../temporary.hpp"
#include "mutations.hpp"
#include "target.hpp"

using namespace weft;

namespace {

using documents = std::vector<std::vector<std::int32_t>>;

const weft_test::temporary_folder& here() {
  static const weft_test::temporary_folder folder;
  return folder;
}

template <class T>
void put(std::string& to, T number) {
  for (std::size_t i = 0; i < sizeof number; ++i) to += static_cast<char>(static_cast<std::uint64_t>(number) >> 8 * i);
}
std::string pair_of(const std::string& index, const std::string& data) {
  std::string out = "M";
  put(out, static_cast<std::uint32_t>(index.size()));
  return out + index + data;
}

documents read_all(const std::string& path) {
  const token_file f(path);
  documents out;
  std::int64_t tokens = 0;
  for (std::int64_t d = 0; d < f.documents(); ++d) {
    out.push_back(f.document(d));
    weft_fuzz::held(std::ssize(out.back()) == f.length(d) && f.tokens_before(d) == tokens, "another length than said");
    tokens += f.length(d);
  }
  weft_fuzz::held(tokens == f.tokens(), "another number of tokens than said");
  return out;
}

template <class Writer>
documents again(const std::string& path, std::int64_t vocab, const documents& all) {
  Writer w(path, vocab);
  for (const auto& d : all) w.add(d);
  w.finish();
  return read_all(path);
}

}  // namespace

std::vector<std::string> weft_fuzz::seeds() {
  std::vector<std::string> out;
  const documents some{{1, 2, 3}, {}, {60000, 0}, {7}};
  for (const std::int64_t vocab : {65000, 100000}) {
    token_writer pair(here() / "seed", vocab);
    llmc_writer one(here() / "seed-one.bin", vocab);
    for (const auto& d : some) pair.add(d), one.add(d);
    pair.finish(), one.finish();
    out.push_back(pair_of(read_file(here() / "seed.idx"), read_file(here() / "seed.bin")));
    out.push_back("L" + read_file(here() / "seed-one.bin"));
  }
  // Of signed bytes, with two sequences in a document and one that lies before another.
  std::string index("MMIDIDX\0\0", 9);
  put(index, std::uint64_t{1}), put(index, std::uint8_t{2}), put(index, std::uint64_t{3}), put(index, std::uint64_t{3});
  for (const std::int32_t length : {2, 1, 2}) put(index, length);
  for (const std::int64_t place : {3, 0, 1}) put(index, place);
  for (const std::int64_t end : {0, 2, 3}) put(index, end);
  out.push_back(pair_of(index, "\1\2\3\4\5"));
  return out;
}

std::string weft_fuzz::mutated(std::string input, random_numbers& random) {
  constexpr std::uint64_t odd[] = {0,
                                   1,
                                   2,
                                   3,
                                   4,
                                   5,
                                   6,
                                   7,
                                   8,
                                   9,
                                   0x7F,
                                   0xFF,
                                   0xFFFF,
                                   0x7FFFFFFF,
                                   0x80000000,
                                   0xFFFFFFFF,
                                   0x100000000,
                                   0x1555555555555555,
                                   0x2000000000000000,
                                   0x7FFFFFFFFFFFFFFF,
                                   0x8000000000000000,
                                   0xFFFFFFFFFFFFFFFE,
                                   0xFFFFFFFFFFFFFFFF};
  constexpr std::size_t header[] = {1, 14, 22, 23, 31};  // the .idx's length, and its numbers
  for (std::size_t n = random.changes(); n > 0; --n) {
    if (random.one_in(3) || input.size() < 48) {
      change_bytes(input, random);
      continue;
    }
    // A number of a header (Megatron's begins behind 5 bytes, llm.c's behind one), or of what follows Megatron's.
    const bool pair = input[0] == 'M';
    const std::size_t bytes = pair ? random.one_in(2) ? 4 : 8 : 4,
                      at = !pair              ? 1 + 4 * random.below(3)
                           : random.one_in(4) ? random.of(header)
                                              : 39 + 4 * random.below((input.size() - 39) / 4);
    const std::uint64_t number = random.of(odd);
    for (std::size_t i = 0; i < bytes && at + i < input.size(); ++i) input[at + i] = static_cast<char>(number >> 8 * i);
  }
  return input;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const bool pair = all.starts_with('M') && size >= 5;
  const std::string path = here() / (pair ? "pair" : "one.bin");
  if (pair) {
    std::uint32_t n = 0;
    for (std::size_t i = 4; i > 0; --i) n = n << 8 | data[i];
    const std::string_view rest = all.substr(5);
    write_file(path + ".idx", rest.substr(0, n));
    write_file(path + ".bin", n < rest.size() ? rest.substr(n) : "");
  } else {
    write_file(path, all.empty() ? all : all.substr(1));
  }
  documents read;
  const bool no = weft_fuzz::refused(path, [&] { read = read_all(path); });
  if (no) return weft_fuzz::counted(no);
  std::int64_t end = 1;
  for (const auto& d : read)
    for (const std::int32_t t : d) end = std::max(end, std::int64_t{t} + 1);
  if (end <= 0x7FFFFFFF)  // a writer's vocabulary goes no further
    weft_fuzz::held((pair ? again<token_writer>(here() / "again", end, read)
                          : again<llmc_writer>(here() / "again-one.bin", end, read)) == read,
                    "other documents when written and read again");
  return weft_fuzz::counted(no);
}
