#include <doctest/doctest.h>

#include <weft/io/file.hpp>
#include <weft/train/progress.hpp>
#include <weft/train/run_folder.hpp>

#include "../temporary.hpp"

using namespace weft;

TEST_CASE("durations read as people write them") {
  CHECK(duration_text(-3) == "0 s");
  CHECK(duration_text(4.4) == "4 s");
  CHECK(duration_text(59.6) == "1:00");
  CHECK(duration_text(83) == "1:23");
  CHECK(duration_text(7385) == "2:03:05");
}

TEST_CASE("the bar keeps its width") {
  CHECK(progress_text(0, 10, 0, 10) == "[          ]   0 %");
  CHECK(progress_text(5, 10, 30, 10) == "[=====>    ]  50 %, 30 s left");
  CHECK(progress_text(10, 10, 30, 10) == "[==========] 100 %");
  CHECK(progress_text(1, 3, 60, 6) == "[==>   ]  33 %, 2:00 left");
  CHECK(progress_text(0, 0, 0, 4) == "[====] 100 %");
  for (int done = 0; done <= 97; ++done) CHECK(progress_text(done, 97, 1, 23).find(']') == 24);
}

TEST_CASE("the bar fits into the terminal") {
  CHECK(progress_text(5, 10, 30, 40) == progress_line(5, 10, 30, 80));
  for (int columns : {100, 63, 41, 40, 39, 30, 12, 2, 1})
    for (int done = 0; done <= 7; ++done) {
      CAPTURE(columns);
      const std::string line = progress_line(done, 7, 12345.0 * done, columns);
      CHECK(line.size() < static_cast<std::size_t>(columns));  // the last column would wrap
      if (columns == 40) CHECK(line.find(" %") != std::string::npos);
    }
  CHECK(progress_line(3, 7, 30, 40) == "[========>           ]  42 %, 40 s left");
}

TEST_CASE("the line of a step has all that was asked of it") {
  const step_report r{.step = 7,
                      .steps = 100,
                      .loss = 2.5,
                      .gradient_norm = 0.75,
                      .lr = 3e-4,
                      .milliseconds = 50,
                      .tokens = 2000,
                      .peak_bytes = 3 << 20};
  CHECK(r.tokens_per_second() == doctest::Approx(40000));
  const std::string line = step_line(r);
  CHECK(line == "step   7/100  loss 2.5000  norm   0.750  lr 3.00e-04      50 ms    40000 tok/s  3.0 MiB");
}

TEST_CASE("a run folder is always new") {
  const weft_test::temporary_folder here;
  const std::string wanted = here / "deep/run";
  CHECK(new_run_folder(wanted) == wanted);
  write_file(wanted + "/kept", "x");
  CHECK(new_run_folder(wanted) == wanted + "-2");
  CHECK(new_run_folder(wanted) == wanted + "-3");
  CHECK(read_file(wanted + "/kept") == "x");
  write_file(here / "file", "");
  CHECK_THROWS_WITH_AS(new_run_folder(here / "file"), doctest::Contains("there is a file of this name"), failure);
  CHECK_THROWS_WITH_AS(new_run_folder(here / "file/below"), doctest::Contains("can't be made"), failure);
  CHECK_THROWS_AS(new_run_folder(""), failure);
}
