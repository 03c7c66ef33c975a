#include <filesystem>
#include <random>
#include <set>

#include <doctest/doctest.h>

#include <weft/io/token_file.hpp>

#include "../said_by.hpp"
#include "../temporary.hpp"

using namespace weft;
using weft_test::said_by;

namespace {

template <class T>
void put(std::string& to, T number) {
  for (std::size_t i = 0; i < sizeof number; ++i) to += static_cast<char>(static_cast<std::uint64_t>(number) >> 8 * i);
}

// As Megatron's own writer lays it out.
std::string index_of(int code, const std::vector<std::int32_t>& lengths, const std::vector<std::int64_t>& places,
                     const std::vector<std::int64_t>& ends) {
  std::string out("MMIDIDX\0\0", 9);
  put(out, std::uint64_t{1});
  put(out, static_cast<std::uint8_t>(code));
  put(out, std::uint64_t{lengths.size()});
  put(out, std::uint64_t{ends.size()});
  for (const auto n : lengths) put(out, n);
  for (const auto n : places) put(out, n);
  for (const auto n : ends) put(out, n);
  return out;
}

using document = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("what a writer writes is laid out as Megatron's, and read back") {
  const weft_test::temporary_folder here;
  for (const std::int64_t vocab : {50257, 128256}) {
    const std::vector<document> all{{1, 2, 50000}, {}, {7}};
    token_writer w(here / "t", vocab);
    for (const document& d : all) w.add(d);
    CHECK_THROWS_WITH_AS(w.add({std::int32_t(vocab)}), doctest::Contains("isn't of a vocabulary of"), failure);
    w.finish();
    const bool narrow = vocab < 65500;
    const std::int64_t size = narrow ? 2 : 4;
    CHECK(read_file(here / "t.idx") == index_of(narrow ? 8 : 4, {3, 0, 1}, {0, 3 * size, 3 * size}, {0, 1, 2, 3}));
    CHECK(read_file(here / "t.bin").size() == static_cast<std::size_t>(4 * size));
    for (const char* name : {"t", "t.bin", "t.idx"}) {
      const token_file f(here / name);
      REQUIRE(f.documents() == 3);
      CHECK(f.tokens() == 4);
      for (std::int64_t d = 0; d < 3; ++d) CHECK(f.document(d) == all[static_cast<std::size_t>(d)]);
      document part{9};
      f.read(0, 1, 2, part);
      CHECK(part == document{9, 2, 50000});
      CHECK(said_by([&] { f.read(0, 2, 2, part); }).find("has 3 tokens, not 4") != std::string::npos);
    }
  }
}

TEST_CASE("documents of several sequences, at places in any order, of every type of whole numbers") {
  const weft_test::temporary_folder here;
  const auto check = [&]<class T>(int code, T) {
    std::string data;
    for (const int t : {5, 6, 7, 1, 2}) put(data, static_cast<T>(t));
    write_file(here / "t.bin", data);
    const std::int64_t size = sizeof(T);
    write_file(here / "t.idx", index_of(code, {2, 0, 3}, {3 * size, 0, 0}, {0, 1, 3}));
    const token_file f(here / "t");
    CHECK(f.documents() == 2);
    CHECK(f.document(0) == document{1, 2});
    CHECK(f.document(1) == document{5, 6, 7});
    write_file(here / "t.idx", index_of(code, {2, 0, 3}, {3 * size, 0, 0}, {0, 3}));
    CHECK(token_file(here / "t").document(0) == document{1, 2, 5, 6, 7});
  };
  check(1, std::uint8_t()), check(2, std::int8_t()), check(3, std::int16_t()), check(4, std::int32_t());
  check(5, std::int64_t()), check(8, std::uint16_t());
}

TEST_CASE("llm.c's files") {
  const weft_test::temporary_folder here;
  const auto file = [&](std::int32_t magic, std::int32_t version, std::int32_t count, const std::string& data) {
    std::string out;
    put(out, magic), put(out, version), put(out, count);
    out.resize(1024);
    write_file(here / "l.bin", out + data);
    return said_by([&] { token_file(here / "l.bin"); });
  };
  std::string narrow, wide;
  for (const int t : {50256, 3, 65535}) put(narrow, static_cast<std::uint16_t>(t)), put(wide, std::uint32_t(t) * 3);
  CHECK(file(20240520, 1, 3, narrow) == "nothing");
  CHECK(token_file(here / "l.bin").document(0) == document{50256, 3, 65535});
  CHECK(file(20240801, 7, 3, wide) == "nothing");
  CHECK(token_file(here / "l.bin").document(0) == document{150768, 9, 196605});
  CHECK(file(20240520, 1, 4, narrow).find("6 bytes behind its header, which aren't those of 4 tokens") !=
        std::string::npos);
  CHECK(file(20240520, 1, -1, narrow).find("aren't those of -1 tokens") != std::string::npos);
  CHECK(file(20240520, 7, 3, narrow).find("it begins with 20240520 and 7") != std::string::npos);
  write_file(here / "l.bin", "short");
  CHECK(said_by([&] { token_file(here / "l.bin"); }).find("fewer than llm.c's header") != std::string::npos);
}

TEST_CASE("an llm.c file's tokens are counted in 31 bits") {
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
  CHECK(detail::llmc_tokens("f", most - 5, 5) == most);
  const char* const said = "llm.c's file f holds at most 2^31 - 1 tokens; write several, or Megatron's pair";
  CHECK(said_by([] { detail::llmc_tokens("f", most - 5, 6); }) == said);
  CHECK(said_by([] { detail::llmc_tokens("f", most, 1); }) == said);
  CHECK(said_by([] { detail::llmc_tokens("f", 0, ~std::size_t{0}); }) == said);
}

TEST_CASE("what a writer of llm.c's writes is laid out as llm.c's, and read back") {
  const weft_test::temporary_folder here;
  for (const std::int64_t vocab : {65536, 128256}) {
    llmc_writer w(here / "l.bin", vocab);
    w.add({50256, 3}), w.add({}), w.add({65535});
    CHECK_THROWS_WITH_AS(w.add({std::int32_t(vocab)}), doctest::Contains("isn't of a vocabulary of"), failure);
    w.finish();
    const bool narrow = vocab == 65536;
    std::string expected;
    put(expected, narrow ? 20240520 : 20240801), put(expected, narrow ? 1 : 7), put(expected, 3);
    expected.resize(1024);
    for (const int t : {50256, 3, 65535})
      narrow ? put(expected, static_cast<std::uint16_t>(t)) : put(expected, static_cast<std::uint32_t>(t));
    CHECK(read_file(here / "l.bin") == expected);
    CHECK(token_file(here / "l.bin").document(0) == document{50256, 3, 65535});
  }
}

TEST_CASE("an index of many documents is written piece by piece") {
  const weft_test::temporary_folder here;
  token_writer w(here / "t", 100000);
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> places, ends{0};
  for (std::int32_t d = 0; d < 140000; ++d) {
    places.push_back(lengths.empty() ? 0 : places.back() + 4 * lengths.back());
    lengths.push_back(d % 3);
    ends.push_back(d + 1);
    w.add(document(static_cast<std::size_t>(d % 3), d % 1000));
  }
  w.finish();
  CHECK(read_file(here / "t.idx") == index_of(4, lengths, places, ends));
  CHECK(token_file(here / "t").tokens() == 139999);
}

TEST_CASE("a writer that isn't finished leaves nothing, and what was there before") {
  const weft_test::temporary_folder here;
  const auto names = [&] {
    std::set<std::string> out;
    for (const auto& e : std::filesystem::directory_iterator(here.path())) out.insert(e.path().filename());
    return out;
  };
  {
    token_writer w(here / "t", 100);
    w.add({1, 2});
    llmc_writer l(here / "l.bin", 100);
    CHECK(names() == std::set<std::string>{"t.bin.unfinished", "t.idx.unfinished", "l.bin.unfinished"});
    w.finish();
    CHECK(names() == std::set<std::string>{"t.bin", "t.idx", "l.bin.unfinished"});
  }
  CHECK(names() == std::set<std::string>{"t.bin", "t.idx"});
  {
    token_writer w(here / "t", 100);
    w.add({3});
  }
  CHECK(token_file(here / "t").document(0) == document{1, 2});
  CHECK_THROWS_WITH_AS(token_writer(here / "none/t", 100), doctest::Contains("make its folder first"), file_error);
  CHECK_THROWS_WITH_AS(token_writer(here / "u", 0), doctest::Contains("a vocabulary of 0 tokens"), failure);
  CHECK_THROWS_WITH_AS(llmc_writer(here / "u", -1), doctest::Contains("a vocabulary of -1 tokens"), failure);
}

TEST_CASE("an index that isn't sound is refused with what is wrong") {
  const weft_test::temporary_folder here;
  write_file(here / "t.bin", std::string(10, '\1'));
  const auto said = [&](const std::string& index) {
    write_file(here / "t.idx", index);
    return said_by([&] { token_file(here / "t"); });
  };
  CHECK(said(index_of(8, {5}, {0}, {0, 1})) == "nothing");
  CHECK(said("MMIDIDX").find("it doesn't begin as one of Megatron's does") != std::string::npos);
  std::string version = index_of(8, {5}, {0}, {0, 1});
  version[9] = 2;
  CHECK(said(version).find("its version is 2, not 1") != std::string::npos);
  for (const int code : {0, 6, 7, 9, 255})
    CHECK(said(index_of(code, {5}, {0}, {0, 1})).find("its type has the number " + std::to_string(code)) !=
          std::string::npos);
  CHECK(said(index_of(8, {6}, {0}, {0, 1})).find("sequence 0 has 6 tokens from byte 0 on") != std::string::npos);
  CHECK(said(index_of(8, {-1}, {0}, {0, 1})).find("sequence 0 has -1 tokens") != std::string::npos);
  CHECK(said(index_of(8, {1}, {-2}, {0, 1})).find("from byte -2 on") != std::string::npos);
  CHECK(said(index_of(8, {1}, {std::int64_t{1} << 62}, {0, 1})).find("sequence 0 has 1 tokens") != std::string::npos);
  CHECK(said(index_of(8, {5}, {0}, {0, 2})).find("document 1 ends at sequence 2") != std::string::npos);
  CHECK(said(index_of(8, {5}, {0}, {1, 1})).find("document 0 ends at sequence 1") != std::string::npos);
  CHECK(said(index_of(8, {5}, {0}, {0, 1, 0})).find("document 2 ends at sequence 0") != std::string::npos);
  CHECK(said(index_of(8, {5}, {0}, {0})).find("its last document doesn't end with the last") != std::string::npos);
  CHECK(said(index_of(8, {5}, {0}, {0, 1}) + "x").find("which aren't those of 1 sequences and 2") != std::string::npos);
  std::string huge = index_of(8, {5}, {0}, {0, 1});
  for (int i = 18; i < 34; ++i) huge[static_cast<std::size_t>(i)] = '\xFF';
  CHECK(said(huge).find("18446744073709551615 sequences") != std::string::npos);
  write_file(here / "t.bin", std::string(8, '\xFF'));
  write_file(here / "t.idx", index_of(4, {2}, {0}, {0, 1}));
  CHECK(said_by([&] { token_file(here / "t").document(0); }).find("the token at byte 0 is -1") != std::string::npos);
}

TEST_CASE("a changed index is refused with a sentence, or is a sound one") {
  const weft_test::temporary_folder here;
  write_file(here / "t.bin", std::string(10, '\1'));
  const std::string whole = index_of(8, {2, 0, 3}, {6, 0, 0}, {0, 1, 3});
  std::mt19937 random(3);
  int sound = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string file = whole;
    for (int n = 1 + static_cast<int>(random() % 2); n > 0; --n) {
      const std::size_t at = random() % file.size();
      if (random() % 8 == 0)
        file.erase(at, random() % 9);
      else
        file[at] = static_cast<char>(random() % 4 == 0 ? random() : random() % 5);
      if (file.empty()) file = "x";
    }
    write_file(here / "t.idx", file);
    try {
      const token_file f(here / "t");
      for (std::int64_t d = 0; d < f.documents(); ++d) f.document(d);
      ++sound;
    } catch (const failure&) {
    }
  }
  CHECK(sound > 100);
  CHECK(sound < 2900);
}

TEST_CASE("a file is written by one alone, and what a killed program left is taken over") {
  const weft_test::temporary_folder here;
  write_file(here / "t.bin.unfinished", std::string(5000, 'x'));
  token_writer first(here / "t", 100);
  first.add({1, 2});
  CHECK(said_by([&] { token_writer(here / "t", 100); }) ==
        "the file " + here / "t.bin" +
            " can't be written: another program is writing it; wait for its end, or give another name");
  CHECK(said_by([&] { llmc_writer(here / "t.bin", 100); }).find("another program is writing it") != std::string::npos);
  first.add({3});
  first.finish();
  CHECK(token_file(here / "t").document(0) == document{1, 2});
  CHECK(token_file(here / "t").document(1) == document{3});
  token_writer again(here / "t", 100);
  again.add({4});
  CHECK(token_file(here / "t").documents() == 2);
  again.prepare();
  CHECK(token_file(here / "t").documents() == 2);
  again.publish();
  CHECK(token_file(here / "t").document(0) == document{4});
}

TEST_CASE("a writer that can't give a name leaves nothing behind") {
  const weft_test::temporary_folder here;
  std::filesystem::create_directory(here / "d.bin");
  CHECK(said_by([&] { token_writer(here / "d", 100); }).find("d.bin can't be written: Is a directory") !=
        std::string::npos);
  {
    token_writer w(here / "t", 100);
    w.add({1});
    std::filesystem::create_directory(here / "t.bin");
    CHECK(said_by([&] { w.finish(); }).find("t.bin can't be written") != std::string::npos);
  }
  {
    llmc_writer w(here / "l.bin", 100);
    w.add({1});
    std::filesystem::create_directory(here / "l.bin");
    CHECK(said_by([&] { w.finish(); }).find("l.bin can't be written") != std::string::npos);
  }
  for (const char* const name : {"t.bin", "t.idx", "l.bin", "d.bin"})
    CHECK_FALSE(std::filesystem::exists(here / name + ".unfinished"));
}
