#include <doctest/doctest.h>

#include <weft/io/read_json.hpp>

#include "../temporary.hpp"

using namespace weft;

namespace {

std::string refused(const std::string& text) {
  try {
    parse_json(text, "f");
  } catch (const file_error& e) {
    return e.what();
  }
  return "not refused";
}

}  // namespace

TEST_CASE("what isn't JSON is refused at its byte, and a name said twice by its name") {
  CHECK(refused("{\"a\": [1, {\"a\": 2}], \"b\": {\"a\": 3}}") == "not refused");
  CHECK(refused("") == "the file f isn't JSON from its byte 1 on, of 0");
  CHECK(refused("{\"a\": 1,}") == "the file f isn't JSON from its byte 9 on, of 9");
  CHECK(refused("[1] 2") == "the file f isn't JSON from its byte 5 on, of 5");
  CHECK(refused("[NaN]").starts_with("the file f isn't JSON from its byte 2 on"));
  CHECK(refused("\"\xFF\"").starts_with("the file f isn't JSON from its byte 2 on"));
  CHECK(refused("[1e999]") == "the file f has a number in its JSON that no 64-bit number holds");
  CHECK(refused("{\"a\": {\"b\": 1, \"c\": 2, \"b\": 3}}") == "the file f names \"b\" twice in one object of its JSON");
  const auto nested = [](int depth) {
    return std::string(std::size_t(depth), '[') + std::string(std::size_t(depth), ']');
  };
  CHECK(refused(nested(json_depth)) == "not refused");
  const std::string deep =
      "the file f has more than 128 objects and arrays within each other in its JSON; no model's file has";
  CHECK(refused(nested(json_depth + 1)) == deep);
  CHECK(refused(nested(1'000'000)) == deep);
  std::string objects;
  for (int i = 0; i < 200; ++i) objects += "{\"a\": [";
  CHECK(refused(objects) == deep);
}

TEST_CASE("a file is read whole, and named where it can't be") {
  const weft_test::temporary_folder here;
  write_file(here / "j", " [1, 2] ");
  CHECK(read_json(here / "j") == nlohmann::json({1, 2}));
  CHECK_THROWS_WITH_AS(read_json(here / "k"), doctest::Contains("k can't be read"), file_error);
}
