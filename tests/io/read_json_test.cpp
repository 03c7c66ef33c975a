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
  CHECK(refused(std::string(100000, '[')).starts_with("the file f isn't JSON"));
}

TEST_CASE("a file is read whole, and named where it can't be") {
  const weft_test::temporary_folder here;
  write_file(here / "j", " [1, 2] ");
  CHECK(read_json(here / "j") == nlohmann::json({1, 2}));
  CHECK_THROWS_WITH_AS(read_json(here / "k"), doctest::Contains("k can't be read"), file_error);
}
