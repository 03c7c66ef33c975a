// Sequences of token files: the same however they are shared out, each once an epoch, held-out ones never.
#include <algorithm>
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "../said_by.hpp"
#include "../temporary.hpp"
#include "token_rows.hpp"

using namespace weft;
using weft_test::append, weft_test::counted, weft_test::document, weft_test::ids, weft_test::lone_rank, weft_test::row,
    weft_test::said_by, weft_test::write_documents;
using ids_by_two = tensor<std::int32_t, dims<batch, seq>, shard<batch, dp>, shard<seq, cp>>;

namespace {

// The first tokens of each row of steps first ... last, and that the others follow.
std::vector<std::int32_t> begins(const token_dataset& data, std::int64_t first, std::int64_t last, std::int64_t length,
                                 std::int64_t batch = 1) {
  std::vector<std::int32_t> out;
  for (std::int64_t step = first; step <= last; ++step) {
    const auto b = data.train<ids>(step, 0, batch, length, batch);
    for (std::int64_t r = 0; r < batch; ++r) {
      out.push_back(b.tokens.local_share()[r * length]);
      for (std::int64_t i = 0; i < length; ++i) {
        REQUIRE(b.tokens.local_share()[r * length + i] == out.back() + i);
        REQUIRE(b.targets.local_share()[r * length + i] == out.back() + i + 1);
      }
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a batch is the same for every sharding and every number of micro-batches") {
  const weft_test::temporary_folder here;
  write_documents(here / "t", counted(4000));
  write_documents(here / "u", counted(900, 5000));
  constexpr std::int64_t count = 24, length = 16;
  const auto batch_of = [&](std::int64_t step, int ranks, std::int64_t parts) {
    std::pair<std::vector<row>, std::vector<row>> out;
    for (std::int64_t m = 0; m < parts; ++m)
      for (int r = 0; r < ranks; ++r) {
        lone_rank at(ranks, r);
        const token_dataset data(at.ctx, {{here / "t", 3}, {here / "u", 1}});
        const auto b = data.train<ids>(step, m * (count / parts), count / parts, length, count);
        CHECK(b.tokens.local_extent<batch>() == count / parts / ranks);
        append(out.first, b.tokens), append(out.second, b.targets);
      }
    return out;
  };
  for (const std::int64_t step : {1, 17}) {  // the second file's second epoch
    const auto whole = batch_of(step, 1, 1);
    CHECK(std::set<row>(whole.first.begin(), whole.first.end()).size() == count);
    for (int ranks : {1, 2, 4})
      for (std::int64_t parts : {1, 2, 3, 6}) {
        CAPTURE(ranks);
        CAPTURE(parts);
        CHECK(batch_of(step, ranks, parts) == whole);
      }
    CHECK(batch_of(step + 1, 1, 1) != whole);
  }
}

TEST_CASE("rows that ranks share unevenly, and sequences that are sharded as well") {
  const weft_test::temporary_folder here;
  write_documents(here / "t", counted(4000));
  const auto whole_of = [&](std::int64_t count) {
    lone_rank at;
    std::vector<row> out;
    append(out, token_dataset(at.ctx, here / "t").train<ids>(2, 0, count, 8, count).targets);
    return out;
  };
  for (const std::int64_t count : {5, 7}) {
    std::vector<row> rows;
    for (int r = 0; r < 4; ++r) {
      lone_rank at(4, r);
      const auto b = token_dataset(at.ctx, here / "t").train<ids>(2, 0, count, 8, count);
      append(rows, b.targets);
    }
    rows.erase(std::remove(rows.begin(), rows.end(), row(8)), rows.end());  // padding
    CHECK(rows == whole_of(count));
  }
  const auto whole = whole_of(2);
  for (int part = 0; part < 2; ++part) {
    lone_rank at(1, 0, 7, 2, part);
    const auto b = token_dataset(at.ctx, here / "t").train<ids_by_two>(2, 0, 2, 8, 2);
    for (std::size_t r = 0; r < 2; ++r)
      for (std::size_t c = 0; c < 4; ++c)
        CHECK(b.targets.local_share()[r * 4 + c] == whole[r][static_cast<std::size_t>(part) * 4 + c]);
  }
}

TEST_CASE("each window is read once an epoch, epochs differ, and held-out tokens are never read") {
  const weft_test::temporary_folder here;
  lone_rank at;
  for (const std::int32_t size : {1000, 1003, 1009, 330, 40}) {
    CAPTURE(size);
    write_documents(here / "t", counted(size));
    const token_dataset data(at.ctx, here / "t", {.held_out = 0.1});
    constexpr std::int64_t length = 10;
    const std::int64_t n = data.sequences(length);
    CHECK(n == (data.training_tokens() - 1) / length);
    CHECK(data.training_tokens() + data.validation_tokens() == size);
    CHECK(std::abs(data.validation_tokens() - size / 10) <= 20);
    std::set<std::vector<std::int32_t>> orders;
    std::set<std::int32_t> first_tokens;
    for (std::int64_t epoch = 0; epoch < 12; ++epoch) {
      auto all = begins(data, epoch * n + 1, (epoch + 1) * n, length);
      orders.insert(all);
      std::sort(all.begin(), all.end());
      first_tokens.insert(all[0]);
      for (std::int64_t w = 0; w < n; ++w) REQUIRE(all[static_cast<std::size_t>(w)] == all[0] + w * length);
      CHECK(all[0] + n * length < data.training_tokens());
    }
    CHECK(orders.size() == (n < 4 ? orders.size() : 12));
    // What is left over at an end is another part each epoch.
    CHECK(first_tokens.size() > ((data.training_tokens() - 1) % length > 2 ? 1 : 0));

    if (!data.can_validate(length - 5)) continue;
    std::vector<row> held, again;
    append(held, data.validation<ids>(0, 7, length - 5).tokens);
    append(again, data.validation<ids>(3, 4, length - 5).tokens);
    for (const row& r : held) CHECK(r[0] >= data.training_tokens());
    CHECK(std::equal(again.begin(), again.end(), held.begin() + 3));
  }
}

TEST_CASE("documents are held out as wholes, where there are several") {
  const weft_test::temporary_folder here;
  lone_rank at;
  const auto split = [&](const std::vector<document>& all, double share) {
    write_documents(here / "t", all);
    return token_dataset(at.ctx, here / "t", {.held_out = share}).training_tokens();
  };
  const document ten(10, 1), one(1, 1);
  CHECK(split({ten, ten, ten}, 0.1) == 27);  // the last border would hold out more than twice as much
  CHECK(split({ten, ten, ten}, 0.2) == 20);
  CHECK(split({ten, ten, ten}, 1 / 6.0) == 20);  // just twice as much
  CHECK(split({document(100, 1), document(10000, 1)}, 0.05) == 9595);
  CHECK(split({ten, ten, ten}, 0.4) == 20);
  CHECK(split({ten, ten, ten}, 0.9) == 10);
  CHECK(split({ten, ten, ten}, 0) == 30);
  CHECK(split({ten, {}, {}, ten}, 0.4) == 10);
  CHECK(split({ten}, 0.3) == 7);
  CHECK(split({{}, ten, {}}, 0.3) == 7);
  CHECK(split({one, ten}, 0.5) == 1);
}

TEST_CASE("several files are drawn by their weights, each without a gap") {
  const weft_test::temporary_folder here;
  const double weights[] = {0.5, 0.3, 0.15, 0.05};
  std::vector<weighted_tokens> files;
  for (int f = 0; f < 4; ++f) {
    const std::string stem = here / std::to_string(f);
    write_documents(stem, counted(500 + 100 * f, f * 10000));
    files.push_back({stem, weights[f]});
  }
  lone_rank at;
  const token_dataset data(at.ctx, files, {.held_out = 0});
  std::map<std::int32_t, std::int64_t> drawn;
  std::map<std::int32_t, std::vector<std::int32_t>> own;
  std::int64_t n = 0;
  for (std::int64_t step = 1; step <= 60; ++step)
    for (const std::int32_t first : begins(data, step, step, 5, 8)) {
      ++drawn[first / 10000], ++n;
      own[first / 10000].push_back(first % 10000);
      for (int f = 0; f < 4; ++f)
        REQUIRE(std::abs(static_cast<double>(drawn[f]) - weights[f] * static_cast<double>(n)) <= 1.001);
    }
  for (int f = 0; f < 4; ++f) {  // its first epoch, or what there is of it
    auto& all = own[f];
    all.resize(std::min(all.size(), static_cast<std::size_t>(499 + 100 * f) / 5));
    CHECK(std::set<std::int32_t>(all.begin(), all.end()).size() == all.size());
  }

  const token_dataset plain(at.ctx, {{here / "0"}, {here / "3"}}, {.held_out = 0});
  CHECK(plain.sequences(5) == 99 + 159);
  const auto once = begins(plain, 1, 1, 5, 260);
  CHECK(std::count_if(once.begin(), once.end(), [](std::int32_t t) { return t < 10000; }) == 100);

  CHECK(said_by([&] {
          token_dataset(at.ctx, {{here / "0", 1}, {here / "1"}});
        }).find("0 beside others; give each a weight above 0, or none any") != std::string::npos);
  CHECK(said_by([&] {
          token_dataset(at.ctx, {{here / "0", 1}, {here / "1", -1}});
        }).find("-1 beside others") != std::string::npos);
  CHECK(said_by([&] { token_dataset(at.ctx, std::vector<weighted_tokens>{}); }).find("of no file") !=
        std::string::npos);
}

TEST_CASE("files to validate with") {
  const weft_test::temporary_folder here;
  for (const int f : {0, 1, 2}) write_documents(here / std::to_string(f), counted(300, f * 10000));
  lone_rank at;
  const token_settings settings{.validation = {{here / "1", 3}, {here / "2", 1}}};
  const token_dataset data(at.ctx, here / "0", settings);
  CHECK(data.training_tokens() == 300);
  CHECK(data.validation_tokens() == 600);
  CHECK(data.sequences(10) == 29);
  for (const std::int32_t first : begins(data, 1, 30, 10)) REQUIRE(first < 300);
  std::vector<row> held;
  append(held, data.validation<ids>(0, 32, 10).tokens);
  CHECK(std::count_if(held.begin(), held.end(), [](const row& r) { return r[0] >= 20000; }) == 8);
  CHECK(std::count_if(held.begin(), held.end(), [](const row& r) { return r[0] < 10000; }) == 0);
  CHECK(std::set<row>(held.begin(), held.end()).size() == 32);
  CHECK(data.can_validate(299));
  CHECK_FALSE(data.can_validate(300));
}

TEST_CASE("a blend keeps its shares far out too") {
  const std::vector<double> weights{5, 1, 0, 2, 0.25};
  const detail::blend five(weights);
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{3} << 40, (std::int64_t{1} << 61) + 12345}) {
    std::vector<double> drawn(5);
    std::vector<std::int64_t> next(5, -1);
    for (std::int64_t i = 0; i < 33000; ++i) {
      const auto at = five.at(n + i);
      REQUIRE((next[at.part] == -1 || at.number == next[at.part]));
      next[at.part] = at.number + 1, drawn[at.part] += 1;
    }
    for (std::size_t p = 0; p < 5; ++p) CHECK(std::abs(drawn[p] - weights[p] * 4000) <= 3);
  }
  const detail::blend three({1, 0, 2});
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{3} << 40}) {
    const auto first = three.at(n), second = three.at(n + 1), third = three.at(n + 2);
    CHECK((first.part == 0) + (second.part == 0) + (third.part == 0) == 1);
    CHECK(first.part + second.part + third.part == 4);
  }
  CHECK_THROWS_AS(detail::blend({0, 0}), failure);
  for (const auto& [weight, other] : {std::pair{1e-10, 1.0}, {1e-300, 1.0}, {1e-17, 3.0}}) {
    CHECK_THROWS_WITH_AS(detail::blend({weight, other}), doctest::Contains("it would never be drawn"), failure);
    CHECK_THROWS_WITH_AS(detail::blend({other, 0, weight, 0}), doctest::Contains("it would never be drawn"), failure);
    CHECK_THROWS_WITH_AS(detail::blend({other, other, weight}), doctest::Contains("it would never be drawn"), failure);
  }
  std::int64_t rare = 0;
  const detail::blend seldom({1, 1e-9, 0});
  for (std::int64_t i = 0; i < 8; ++i) rare += seldom.at((std::int64_t{1} << 32) * i).number;
  CHECK(rare > 0);
}

TEST_CASE("a random permutation is one, for sizes around powers of two") {
  for (const std::int64_t n : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4096, 5000, 10007, 65537}) {
    const detail::random_permutation order(n, {3, 4}), other(n, {3, 5});
    std::vector<bool> seen(static_cast<std::size_t>(n));
    std::int64_t fixed = 0, same = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t to = order(i);
      REQUIRE(to >= 0);
      REQUIRE(to < n);
      REQUIRE_FALSE(seen[static_cast<std::size_t>(to)]);
      seen[static_cast<std::size_t>(to)] = true;
      fixed += to == i, same += to == other(i);
    }
    if (n > 60) CHECK(fixed < 12);
    if (n > 60) CHECK(same < 12);
  }
  const std::int64_t most = std::int64_t{1} << 62;
  CHECK(detail::random_permutation(most, {1, 2})(most - 1) < most);
  CHECK_THROWS_AS(detail::random_permutation(0, {}), failure);
}

TEST_CASE("an end is put behind documents that have none") {
  const weft_test::temporary_folder here;
  lone_rank at;
  const auto read = [&](const std::vector<document>& all, std::int32_t end, std::int64_t length) {
    write_documents(here / "t", all);
    std::vector<row> out;
    const token_dataset data(at.ctx, here / "t", {.held_out = 0, .end_token = end});
    append(out, data.train<ids>(1, 0, 1, length, 1).tokens), append(out, data.train<ids>(1, 0, 1, length, 1).targets);
    return out;
  };
  CHECK(read({{1, 2}, {}, {3}}, 9, 5) == std::vector<row>{{1, 2, 9, 9, 3}, {2, 9, 9, 3, 9}});
  CHECK(read({{1, 2}, {}, {3}}, -1, 2) == std::vector<row>{{1, 2}, {2, 3}});
  CHECK(read({{1, 9}, {}, {3, 9}}, 9, 3) == std::vector<row>{{1, 9, 3}, {9, 3, 9}});
  CHECK(said_by([&] {
          read({{1, 9}, {4}, {3, 9}}, 9, 3);
        }).find("end with the token 9, and others don't, document 1 say") != std::string::npos);
}

TEST_CASE("targets that the loss leaves out are negative") {
  const weft_test::temporary_folder here;
  lone_rank at;
  write_documents(here / "t", {{1, 2, 3}, {4}, {5, 6}});
  const auto targets = [&](std::int32_t end, std::int64_t length) {
    std::vector<row> out;
    const token_dataset data(at.ctx, here / "t.idx", {.held_out = 0, .end_token = end});
    append(out, data.train<ids>(1, 0, 1, length, 1).tokens), append(out, data.train<ids>(1, 0, 1, length, 1).targets);
    return out;
  };
  write_documents(here / "t.loss", {{1, 0, 1}, {0}, {0, 1}}, 2);
  CHECK(targets(-1, 5) == std::vector<row>{{1, 2, 3, 4, 5}, {-1, 3, -1, -1, 6}});
  CHECK(targets(9, 8) == std::vector<row>{{1, 2, 3, 9, 4, 9, 5, 6}, {-1, 3, 9, -1, -1, -1, 6, 9}});
  write_documents(here / "t.loss", {{1, 0, 1}, {0}}, 2);
  CHECK(said_by([&] { targets(-1, 5); }).find("it has 2 documents, not the 3 of the tokens beside it") !=
        std::string::npos);
  write_documents(here / "t.loss", {{1, 0, 1}, {0, 0}, {0}}, 2);
  CHECK(said_by([&] { targets(-1, 5); }).find("its document 1 has 2 tokens, not the 1 of the tokens") !=
        std::string::npos);
}

TEST_CASE("half a pair that says the loss is refused") {
  const weft_test::temporary_folder here;
  lone_rank at;
  for (const char* const left : {"t.loss.bin", "t.loss.idx"}) {
    write_documents(here / "t", {{1, 2, 3}});
    write_documents(here / "t.loss", {{1, 0, 1}}, 2);
    token_dataset(at.ctx, here / "t");
    std::filesystem::remove(here / left);
    CHECK(said_by([&] { token_dataset(at.ctx, here / "t"); }).find(left + std::string(" can't be read")) !=
          std::string::npos);
    std::filesystem::remove(here / "t.loss.idx"), std::filesystem::remove(here / "t.loss.bin");
  }
}

TEST_CASE("a token that the model's vocabulary doesn't have is refused") {
  const weft_test::temporary_folder here;
  lone_rank at;
  write_documents(here / "t", {{1, 2, 3, 400, 5, 6, 7, 8, 9}});
  const auto read = [&](std::int64_t vocab, std::int64_t length) {
    const token_dataset data(at.ctx, here / "t", {.held_out = 0, .vocab = vocab});
    return said_by([&] { data.train<ids>(1, 0, 1, length, 1); });
  };
  CHECK(read(0, 8) == "nothing");
  CHECK(read(401, 8) == "nothing");
  CHECK(read(400, 8) == "the file " + here / "t" +
                            " has the token 400, and the model's vocabulary 400 tokens: write the "
                            "file again by the model's own tokenizer");
  // The last window's target, and what is validated with.
  write_documents(here / "u", {{1, 2, 3, 400}});
  const token_dataset last(at.ctx, here / "u", {.held_out = 0, .vocab = 400});
  CHECK(said_by([&] { last.train<ids>(1, 0, 1, 3, 1); }).find("has the token 400") != std::string::npos);
  write_documents(here / "v", {{1, 2, 3, 4}});
  const token_dataset both(at.ctx, here / "v", {.validation = {{here / "u"}}, .vocab = 400});
  both.train<ids>(1, 0, 1, 3, 1);
  CHECK(said_by([&] { both.validation<ids>(0, 1, 3); }).find("u has the token 400") != std::string::npos);
  CHECK(said_by([&] { token_dataset(at.ctx, here / "v", {.end_token = 400, .vocab = 400}); }) ==
        "the end_token 400 isn't of the model's vocabulary of 400 tokens");
  CHECK(said_by([&] { token_dataset(at.ctx, here / "v", {.vocab = -1}); }).find("vocab is -1") != std::string::npos);
  CHECK(said_by([&] {
          token_dataset(at.ctx, {{here / "v", 1}, {here / "u", 1e-12}});
        }).find("weight 1e-12, of 1 in all: it would never be drawn") != std::string::npos);
  const token_settings rare{.validation = {{here / "v", 1}, {here / "u", 1e-12}}};
  CHECK(said_by([&] { token_dataset(at.ctx, here / "v", rare); }).find("never be drawn") != std::string::npos);
}

TEST_CASE("what doesn't fit is refused with a sentence") {
  const weft_test::temporary_folder here;
  lone_rank at;
  write_documents(here / "t", {document(9, 1)});
  const token_dataset short_one(at.ctx, here / "t", {.held_out = 0.2});
  CHECK(short_one.training_tokens() == 8);
  CHECK(
      said_by([&] { short_one.train<ids>(1, 0, 2, 8, 2); })
          .find("t has 8 tokens to train on, fewer than a sequence of 8 and the token after it; give a longer file, a "
                "smaller held_out or a smaller seq") != std::string::npos);
  CHECK_FALSE(short_one.can_validate(1));
  CHECK(said_by([&] { short_one.validation<ids>(0, 2, 8); }).find("has 1 tokens for validation, fewer") !=
        std::string::npos);
  write_documents(here / "e", {});
  const token_dataset empty(at.ctx, here / "e");
  CHECK(said_by([&] { empty.train<ids>(1, 0, 2, 8, 2); }).find("has 0 tokens to train on") != std::string::npos);
  CHECK_FALSE(empty.can_validate(1));

  const token_dataset data(at.ctx, here / "t", {.held_out = 0});
  CHECK(said_by([&] { data.train<ids>(1, 2, 3, 4, 4); }) == "sequences 2 to 4 of a batch of 4: it doesn't have them");
  CHECK(said_by([&] { data.train<ids>(0, 0, 1, 4, 1); }).find("steps count from 1") != std::string::npos);
  CHECK(said_by([&] { token_dataset(at.ctx, here / "t", {.held_out = 1}); }).find("held_out is 1") !=
        std::string::npos);
  CHECK(said_by([&] { token_dataset(at.ctx, here / "none"); }).find("none can't be read") != std::string::npos);
  std::string index = read_file(here / "t.idx");
  index[18] = 7;
  write_file(here / "t.idx", index);
  CHECK(said_by([&] { token_dataset(at.ctx, here / "t.idx"); }).find("is no sound file of tokens") !=
        std::string::npos);
}
