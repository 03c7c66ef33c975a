// A target's inputs without libFuzzer. PROGRAM COUNT [FIRST]: what the target begins from, each of which has to be
// read, then so many inputs that are changed from them, the FIRST-th and on: an input of a number is always the same.
// PROGRAM --write FOLDER: writes what it begins from, for libFuzzer. PROGRAM FILE...: these inputs. An input that ends
// the program is written to fuzz-fault.
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "target.hpp"

namespace {

const std::string* running = nullptr;

extern "C" void write_running(int) {
  const std::FILE* const none = nullptr;
  std::FILE* const file = running ? std::fopen("fuzz-fault", "wb") : nullptr;
  if (file != none) {
    std::fwrite(running->data(), 1, running->size(), file);
    std::fclose(file);
    std::fputs("the input is in the file fuzz-fault\n", stderr);
  }
  std::signal(SIGABRT, SIG_DFL);
}

void run(const std::string& input) {
  running = &input;
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  running = nullptr;
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> given(arguments + 1, arguments + count);
  if (std::filesystem::is_directory("/dev/shm")) setenv("TMPDIR", "/dev/shm", 0);
  std::signal(SIGABRT, write_running);
  if (given.empty()) return std::fputs("driver.cpp says at its top how it is called\n", stderr), 2;
  const std::vector<std::string> begins = weft_fuzz::seeds();
  if (given[0] == "--write") {
    for (std::size_t i = 0; i < begins.size(); ++i)
      std::ofstream(given.at(1) + "/" + std::to_string(i), std::ios::binary) << begins[i];
    return 0;
  }
  if (given[0].find_first_not_of("0123456789") != std::string::npos) {
    for (const std::string& name : given) {
      std::ifstream file(name, std::ios::binary);
      weft_fuzz::held(file.good(), "no such file: " + name);
      run({std::istreambuf_iterator<char>(file), {}});
    }
  } else {
    for (const std::string& input : begins) run(input);
    weft_fuzz::held(weft_fuzz::seen.refused == 0, "an input that it begins from is refused");
    const std::uint64_t inputs = std::stoull(given[0]), first = given.size() > 1 ? std::stoull(given[1]) : 0;
    for (std::uint64_t i = first; i < first + inputs; ++i) {
      weft_fuzz::random_numbers random(i);
      run(weft_fuzz::mutated(random.of(begins), random));
    }
  }
  const weft_fuzz::counts& seen = weft_fuzz::seen;
  std::printf("%lld inputs: %lld refused, %lld read\n", static_cast<long long>(seen.refused + seen.read),
              static_cast<long long>(seen.refused), static_cast<long long>(seen.read));
}
