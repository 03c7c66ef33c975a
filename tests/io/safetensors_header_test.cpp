#include <random>

#include <doctest/doctest.h>

#include <weft/io/safetensors_header.hpp>

#include "sample.hpp"

using namespace weft;

namespace {

// As safetensors 0.8 writes them: numpy arrays of several types, a scalar, an empty one, a name that wants escapes.
const std::string reference =
    R"({"__metadata__":{"format":"np"},"ids":{"dtype":"I64","shape":[2,2],"data_offsets":[0,32]},)"
    R"("a":{"dtype":"F64","shape":[],"data_offsets":[32,40]},"b":{"dtype":"F32","shape":[3],"data_offsets":[40,52]},)"
    R"("empty":{"dtype":"F16","shape":[0,4],"data_offsets":[52,52]},)"
    R"("c":{"dtype":"I16","shape":[2],"data_offsets":[52,56]},)"
    "\"quote\\\"\\\\\\n\x7F\xC3\xA4\\u0001\":"
    R"({"dtype":"U8","shape":[1],"data_offsets":[56,57]},"mask":{"dtype":"BOOL","shape":[2],"data_offsets":[57,59]}} )";

std::string file_of(const std::string& header, std::size_t data, std::uint64_t said) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(said >> 8 * i);
  return out + header + std::string(data, '\0');
}
std::string file_of(const std::string& header, std::size_t data) { return file_of(header, data, header.size()); }

std::string refused(const std::string& file) {
  try {
    read_safetensors_header(file, "f");
  } catch (const file_error& e) {
    return e.what();
  }
  return "not refused";
}
std::string refused(const std::string& header, std::size_t data) { return refused(file_of(header, data)); }

const std::string sorry = "; it was cut off or changed after it was written: fetch or write it again";

}  // namespace

TEST_CASE("the original library's header is read, and written to the byte") {
  const std::string file = file_of(reference, 59);
  safetensors_header header = read_safetensors_header(file, "f");
  CHECK(header.bytes == 8 + reference.size());
  CHECK(header.metadata == std::map<std::string, std::string>{{"format", "np"}});
  REQUIRE(header.tensors.size() == 7);
  CHECK(header.tensors[0].name == "ids");
  CHECK(header.tensors[0].type->type == dtype::i64);
  CHECK(header.tensors[1].shape.empty());
  CHECK(header.tensors[1].end == 40);
  CHECK(!header.tensors[4].type->type);

  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    std::shuffle(header.tensors.begin(), header.tensors.end(), random);
    for (safetensors_entry& e : header.tensors) e.begin = e.end = 77;
    CHECK(write_safetensors_header(header, "f") == file.substr(0, header.bytes));
  }
}

TEST_CASE("a file without tensors is one") {
  const safetensors_header header = read_safetensors_header(file_of("{}", 0), "f");
  CHECK(header.tensors.empty());
  safetensors_header empty;
  CHECK(write_safetensors_header(empty, "f") == file_of("{}      ", 0));
}

TEST_CASE("what isn't sound is refused with what is wrong") {
  const std::string no = "the file f is no sound safetensors file: ";
  CHECK(refused("1234567") == no + "it has 7 bytes, fewer than 8" + sorry);
  CHECK(refused(file_of("{}", 0, 100'000'001)) ==
        no + "its header would have 100000001 bytes, more than 100000000" + sorry);
  CHECK(refused(file_of("{}", 0, ~std::uint64_t{0})).find("more than 100000000") != std::string::npos);
  CHECK(refused(file_of("{}", 0, 3)) == no + "its header ends at byte 11 of 10" + sorry);
  CHECK(refused(" {}", 0) == no + "its header doesn't begin with {" + sorry);
  CHECK(refused("", 0) == no + "its header doesn't begin with {" + sorry);
  CHECK(refused("{}x", 0) == "the file f isn't JSON from its byte 3 on, of 3");
  CHECK(refused("{\"\xFF\":1}", 0) == "the file f isn't JSON from its byte 3 on, of 7");

  const auto one = [](const std::string& described) { return "{\"x\":" + described + "}"; };
  const std::string good = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  CHECK(refused(one(good), 8) == "not refused");
  CHECK(refused("{\"x\":" + good + ",\"x\":" + good + "}", 8) ==
        "the file f names \"x\" twice in one object of its JSON");
  CHECK(refused(one(R"({"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]})"), 8) ==
        "the file f names \"shape\" twice in one object of its JSON");
  CHECK(refused(one(good), 9) == no + "its tensors have 8 bytes, and 9 follow the header" + sorry);
  CHECK(refused(one(good), 7) == no + "its tensors have 8 bytes, and 7 follow the header" + sorry);
  CHECK(refused(one("[]"), 0) == no + "tensor \"x\" is described by no object" + sorry);
  CHECK(refused(one(R"({"shape":[2],"data_offsets":[0,8]})"), 8) == no + "tensor \"x\" has no dtype" + sorry);
  CHECK(refused(one(R"({"dtype":"F31","shape":[2],"data_offsets":[0,8]})"), 8) ==
        no + "tensor \"x\" has the unknown dtype \"F31\"" + sorry);
  CHECK(refused(one(R"({"dtype":"F32","data_offsets":[0,8]})"), 8) == no + "tensor \"x\" has no shape" + sorry);
  CHECK(refused(one(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})"), 8) ==
        no + "the shape of tensor \"x\" is no list" + sorry);
  for (const std::string bad : {"-2", "2.0", "1e0", "\"2\"", "null", "99999999999999999999"})
    CHECK(refused(one(R"({"dtype":"F32","shape":[)" + bad + R"(],"data_offsets":[0,8]})"), 8) ==
          no + "the shape of tensor \"x\" has a member that is no whole number from 0 on" + sorry);
  CHECK(refused(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4,8]})"), 8) ==
        no + "the data_offsets of tensor \"x\" are not two" + sorry);
  CHECK(refused(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), 8) ==
        no + "tensor \"x\" ends before it begins" + sorry);
  CHECK(refused(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1})"), 8) ==
        no + "tensor \"x\" has members beside dtype, shape and data_offsets" + sorry);
  CHECK(refused(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"), 8) ==
        no + "tensor \"x\" has 8 bytes, where its shape and dtype take 12" + sorry);
  for (const std::string shape : {"4294967296,4294967296", "4294967296,4294967296,0", "4611686018427387904"})
    CHECK(refused(one(R"({"dtype":"F32","shape":[)" + shape + R"(],"data_offsets":[0,0]})"), 0) ==
          no + "the shape of tensor \"x\" has more bits than 64 bits count" + sorry);
  CHECK(refused(one(R"({"dtype":"F4","shape":[3],"data_offsets":[0,1]})"), 1) ==
        no + "tensor \"x\" ends within a byte" + sorry);
  CHECK(refused(R"({"__metadata__":{"a":1}})", 0) == no + "its __metadata__ doesn't map strings to strings" + sorry);
  CHECK(refused(R"({"__metadata__":[]})", 0) == no + "its __metadata__ doesn't map strings to strings" + sorry);

  const auto two = [](const std::string& a, const std::string& b) {
    const std::string at = R"({"dtype":"U8","shape":[2],"data_offsets":)";
    return "{\"x\":" + at + a + "},\"y\":" + at + b + "}}";
  };
  CHECK(refused(two("[2,4]", "[0,2]"), 4) == "not refused");
  CHECK(refused(two("[0,2]", "[1,3]"), 3) == no + "tensor \"y\" begins at byte 1, where 2 bytes lie before it" + sorry);
  CHECK(refused(two("[0,2]", "[3,5]"), 5) == no + "tensor \"y\" begins at byte 3, where 2 bytes lie before it" + sorry);
  CHECK(refused(two("[1,3]", "[3,5]"), 5) == no + "tensor \"x\" begins at byte 1, where 0 bytes lie before it" + sorry);
}

TEST_CASE("what can't be written is refused") {
  const auto said = [](std::vector<safetensors_entry> tensors) -> std::string {
    safetensors_header header{0, std::move(tensors), {}};
    try {
      write_safetensors_header(header, "f");
    } catch (const file_error& e) {
      return e.what();
    }
    return "not refused";
  };
  const safetensors_type* u8 = &safetensors_types[4];
  CHECK(said({{"a", u8, {1}}, {"a", u8, {2}}}) == "the file f can't have two tensors called \"a\"");
  CHECK(said({{"__metadata__", u8, {1}}}) == "the file f can't have two tensors called \"__metadata__\"");
  CHECK(said({{std::string(100'000'000, 'n'), u8, {}}}).starts_with("the file f can't have a header of 1000000"));
}

TEST_CASE("a changed file is refused with a sentence, or is a sound file itself") {
  const std::string whole = file_of(reference, 59);
  std::mt19937 random(7);
  int sound = 0;
  const int files = weft_test::sampled(20000);
  for (int i = 0; i < files; ++i) {
    std::string file = whole;
    for (int n = 1 + static_cast<int>(random() % 3); n > 0; --n) {
      const std::size_t at = random() % file.size();
      switch (random() % 4) {
        case 0:
          file[at] = static_cast<char>(random());
          break;
        case 1:
          file.erase(at, random() % 9);
          break;
        case 2:
          file.insert(at, file.substr(random() % file.size(), random() % 9));
          break;
        default:
          file[at] = "0123456789[]{},:\""[random() % 17];
      }
      if (file.empty()) file = "x";
    }
    try {
      const safetensors_header header = read_safetensors_header(file, "f");
      std::uint64_t end = 0;
      for (const safetensors_entry& e : header.tensors) CHECK(std::exchange(end, e.end) == e.begin);
      CHECK(header.bytes + end == file.size());
      ++sound;
    } catch (const file_error&) {
    }
  }
  CHECK(sound > files / 200);
  CHECK(sound < files / 2);
}
