// Reading and checking what was asked, and filling in what was left open.
#include "question.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "../shared/names.hpp"

namespace weft_plan {

std::size_t read_bytes(const std::string& text) {
  char* rest = nullptr;
  const double number = std::strtod(text.c_str(), &rest);
  const std::string unit = rest;
  double bytes = unit == "B" ? number : -1;
  double binary = 1, decimal = 1;
  for (const char prefix : std::string("KMGT")) {
    binary *= 1024, decimal *= 1000;
    if (unit == std::string(1, prefix) + "iB") bytes = number * binary;
    if (unit == std::string(1, prefix) + "B") bytes = number * decimal;
  }
  weft::require(rest != text.c_str() && bytes >= 1 && bytes < 0x1p62, "--memory is ", text,
                "; write a number and its unit, B, KiB, MiB, GiB, TiB or KB, MB, GB, TB: 24GiB");
  return static_cast<std::size_t>(bytes);
}

std::vector<std::string> read_list(const char* option, const std::string& text, const std::vector<std::string>& valid) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) {
    examples::check_name((std::string("choice of ") + option).c_str(), word, valid);
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
  return words;
}

void resolve(question& q, const asked_model& m) {
  using weft::require;
  const auto size = [](const char* option, std::int64_t n, std::int64_t most) {
    require(n >= 0 && n <= most, option, " is ", n, "; it is from 1 to ", most);
  };
  size("--ranks", q.ranks, 4096), size("--dp", q.dp, 4096), size("--tp", q.tp, 4096), size("--pp", q.pp, 4096);
  size("--batch", q.batch, 1 << 20), size("--micro-batches", q.micro_batches, 4096), size("--rows", q.rows, 1 << 20);
  size("--seq", q.seq, 1 << 24), size("--prompt", q.prompt, 1 << 24), size("--tokens", q.tokens, 1 << 16);
  size("--threads", q.threads, 1024);
  require(q.threads >= 1, "--threads is 0; it is from 1 to 1024");

  std::int64_t given = 1;
  for (const int degree : {q.dp, q.tp, q.pp}) given *= std::max(degree, 1);
  require(given <= 4096, "--dp, --tp and --pp take ", given, " ranks; a plan has up to 4096");
  if (q.ranks == 0) {
    q.ranks = static_cast<int>(given);
    for (int* degree : {&q.dp, &q.tp, &q.pp}) *degree = std::max(*degree, 1);
  }
  const bool all_given = q.dp > 0 && q.tp > 0 && q.pp > 0;
  require(all_given ? given == q.ranks : q.ranks % given == 0, "the degrees that are given take ", given,
          given == 1 ? " rank" : " ranks", all_given ? ", not " : ", which doesn't divide ", q.ranks,
          "; change --dp, --tp, --pp or --ranks so that they agree");

  if (q.batch == 0) q.batch = q.ranks;
  require(q.seq >= 0 && q.seq <= m.positions, "--seq is ", q.seq, "; the model of ", m.file,
          " takes sequences of 1 to ", m.positions, " tokens");
  if (q.seq == 0) q.seq = std::min<std::int64_t>(m.positions, 4096);
  require(q.prompt <= m.positions, "--prompt is ", q.prompt, "; the model of ", m.file, " reads 1 to ", m.positions,
          " tokens");
  if (q.tokens == 0) q.tokens = std::min<std::int64_t>(128, std::max<std::int64_t>(m.positions / 4, 1));
  if (q.prompt == 0) q.prompt = std::clamp<std::int64_t>(m.positions - q.tokens, 1, 1024);
}

}  // namespace weft_plan
