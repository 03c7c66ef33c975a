#include <cmath>
#include <limits>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <weft/io/json.hpp>

using weft::json_escape;
using weft::json_writer;

TEST_CASE("what a writer writes, a reader of others reads back") {
  for (int lines : {0, 1, 2, 5}) {
    CAPTURE(lines);
    json_writer w(lines);
    w.begin_object().member("a", 1).member("b", -2.5).member("text", "x").member("yes", true).key("list").begin_array();
    w.value(1).value("two").begin_object().end_object().begin_array().end_array().raw("[3]").end_array();
    w.key("inner").begin_object().member("deep", std::int64_t{1} << 60).end_object().end_object();
    const auto read = nlohmann::json::parse(w.text());
    const auto expected = nlohmann::json::parse(
        R"({"a":1,"b":-2.5,"text":"x","yes":true,"list":[1,"two",{},[],[3]],"inner":{"deep":1152921504606846976}})");
    CHECK(read == expected);
  }
}

TEST_CASE("one line by default, and as many as asked") {
  const auto lines_of = [](int lines) {
    json_writer w(lines);
    const std::string text = w.begin_object()
                                 .member("a", 1)
                                 .member("b", 2)
                                 .key("c")
                                 .begin_object()
                                 .member("d", 3)
                                 .end_object()
                                 .end_object()
                                 .text();
    return std::count(text.begin(), text.end(), '\n');
  };
  CHECK(lines_of(0) == 0);
  CHECK(lines_of(1) == 4);
  CHECK(lines_of(2) == 6);
}

TEST_CASE("every byte can stand in a string") {
  std::string all;
  for (int c = 1; c < 128; ++c) all += static_cast<char>(c);
  all += '\0';
  all += "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80";  // two, three and four bytes
  CHECK(nlohmann::json::parse('"' + json_escape(all) + '"').get<std::string>() == all);
}

TEST_CASE("what is no UTF-8 becomes U+FFFD, one for each byte") {
  const std::string bad = "\xEF\xBF\xBD";
  CHECK(json_escape("a\xFFz") == "a" + bad + "z");
  CHECK(json_escape("\xC0\xAF") == bad + bad);                      // overlong '/'
  CHECK(json_escape("\xE0\x80\x80") == bad + bad + bad);            // overlong
  CHECK(json_escape("\xED\xA0\x80") == bad + bad + bad);            // surrogate
  CHECK(json_escape("\xF4\x90\x80\x80") == bad + bad + bad + bad);  // above U+10FFFF
  CHECK(json_escape("\xE2\x82") == bad + bad);                      // cut off
  for (int first = 0; first < 256; ++first) {                       // nlohmann's parser refuses what is not UTF-8
    const std::string two{static_cast<char>(first), static_cast<char>(first * 7)};
    CHECK(nlohmann::json::accept('"' + json_escape(two) + '"'));
  }
}

TEST_CASE("numbers that JSON lacks become null") {
  const auto text = [](double x) { return json_writer().value(x).text(); };
  CHECK(text(std::nan("")) == "null");
  CHECK(text(std::numeric_limits<double>::infinity()) == "null");
  CHECK(text(-std::numeric_limits<double>::infinity()) == "null");
  CHECK(text(0.1) == "0.1");
  CHECK(nlohmann::json::parse(text(1.7e308)).get<double>() == doctest::Approx(1.7e308));
}
