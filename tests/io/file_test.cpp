#include <doctest/doctest.h>

#include <weft/io/file.hpp>
#include <weft/train/json_lines.hpp>

#include "../said_by.hpp"
#include "../temporary.hpp"

using namespace weft;
using weft_test::said_by;

namespace {

// What f throws.
}  // namespace

TEST_CASE("what is written is read back") {
  const weft_test::temporary_folder here;
  {
    const owned_file f = open_file(here / "parts", "wb");
    write_all(f, here / "parts", "one ");
    write_all(f, here / "parts", "two");
  }
  CHECK(read_file(here / "parts") == "one two");
  write_file(here / "a", std::string("x\0y", 3));
  CHECK(read_file(here / "a") == std::string("x\0y", 3));
  write_file(here / "a", "");
  CHECK(read_file(here / "a").empty());
}

TEST_CASE("errors of files name the path, the system's reason and what helps against that one") {
  const weft_test::temporary_folder here;
  const std::string missing = here / "none", below = here / "none/below";
  CHECK(said_by([&] { read_file(missing); }) ==
        "the file " + missing + " can't be read: No such file or directory; check the path");
  CHECK(said_by([&] { write_file(below, "x"); }) ==
        "the file " + below + " can't be written: No such file or directory; make its folder first");
  CHECK(said_by([&] { read_file(here.path()); }) ==
        "the file " + here.path() + " can't be read: Is a directory; give a regular file");
  CHECK(said_by([&] { write_file(here.path(), "x"); }) ==
        "the file " + here.path() + " can't be written: Is a directory; give a regular file");
  CHECK(said_by([&] { json_lines(here / "none", "lines"); }).find(here / "none/lines") != std::string::npos);
}

TEST_CASE("a full disk is told as such, with the path, whatever was written before") {
  if (!std::filesystem::exists("/dev/full")) return;
  const std::string full = "the file /dev/full can't be written: No space left on device; make space on its disk";
  CHECK(said_by([] { write_file("/dev/full", "x"); }) == full);
  CHECK(said_by([] { write_file("/dev/full", std::string(1 << 20, 'x')); }) == full);
  json_lines lines("/dev", "full");
  CHECK(said_by([&] { lines.write("{}"); }) == full);
  CHECK(said_by([&] { lines.write(std::string(1 << 20, ' ')); }) == full);
}
