// Documents in an order of each epoch's own, packed into sequences or one by one: each token once an epoch, the same
// for any number of ranks.
#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include <doctest/doctest.h>

#include "../said_by.hpp"
#include "../temporary.hpp"
#include "token_rows.hpp"

using namespace weft;
using weft_test::append, weft_test::counted, weft_test::document, weft_test::ids, weft_test::lone_rank, weft_test::row,
    weft_test::said_by, weft_test::write_documents;

namespace {

// Rows of tokens and of targets, sequences first ... first + n - 1 of a run with a batch of one.
struct read_rows {
  std::vector<row> tokens, targets;
  read_rows(const token_dataset& data, std::int64_t first, std::int64_t n, std::int64_t length) {
    for (std::int64_t i = first; i < first + n; ++i) {
      const auto b = data.train<ids>(i + 1, 0, 1, length, 1);
      append(tokens, b.tokens), append(targets, b.targets);
    }
  }
  // Of all rows, one behind the other.
  static row joined(const std::vector<row>& rows) {
    row out;
    for (const row& r : rows) out.insert(out.end(), r.begin(), r.end());
    return out;
  }
};

}  // namespace

TEST_CASE("shuffled documents: each token once an epoch, documents whole and in another order each time") {
  const weft_test::temporary_folder here;
  lone_rank at;
  constexpr std::int64_t length = 10;
  for (const std::int32_t size : {2000, 2003, 330, 60}) {
    CAPTURE(size);
    const auto documents = counted(size);
    write_documents(here / "t", documents);
    const token_dataset data(at.ctx, here / "t", {.held_out = 0.1, .shuffle_documents = true});
    const auto trained = data.training_tokens();
    const std::int64_t n = data.sequences(length);
    CHECK(n == (trained - 1) / length);
    std::set<std::int32_t> ends;  // last tokens of documents
    for (const document& d : documents)
      if (!d.empty()) ends.insert(d.back());
    ends.insert(static_cast<std::int32_t>(trained) - 1);  // where the last one is cut
    std::set<std::map<std::int32_t, std::int32_t>> orders;
    std::set<std::int32_t> left_out;
    for (std::int64_t epoch = 0; epoch < 6; ++epoch) {
      const read_rows rows(data, epoch * n, n, length);
      const row all = read_rows::joined(rows.tokens), next = read_rows::joined(rows.targets);
      const std::set<std::int32_t> once(all.begin(), all.end()), targets(next.begin(), next.end());
      REQUIRE(static_cast<std::int64_t>(once.size()) == n * length);
      REQUIRE(static_cast<std::int64_t>(targets.size()) == n * length);
      REQUIRE(*once.rbegin() < trained);
      REQUIRE(*targets.rbegin() < trained);
      for (std::int32_t t = 0; t < trained; ++t)
        if (once.count(t) == 0) left_out.insert(t);
      // Within a document each token is followed by its next; what follows a document's end is the order.
      std::map<std::int32_t, std::int32_t> follows;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (i % length + 1 < length) REQUIRE(next[i] == all[i + 1]);
        if (ends.count(all[i]) > 0)
          follows[all[i]] = next[i];
        else
          REQUIRE(next[i] == all[i] + 1);
      }
      orders.insert(follows);
      std::int64_t kept = 0;
      for (const auto& [end, begin] : follows) kept += begin == end + 1;
      if (size >= 2000) CHECK(kept < 8);  // of about 90 documents, where one is expected
      for (const auto& [end, begin] : follows) REQUIRE((begin == 0 || ends.count(begin - 1) > 0));
    }
    if (size > 100) CHECK(orders.size() == 6);
    // What fills no window is another part each epoch.
    if ((trained - 1) % length > 0) CHECK(static_cast<std::int64_t>(left_out.size()) > trained - n * length);
    std::vector<row> held;
    if (data.can_validate(length)) append(held, data.validation<ids>(0, 9, length).tokens);
    for (const row& r : held)
      for (std::size_t i = 0; i < r.size(); ++i) REQUIRE((r[0] >= trained && r[i] == r[0] + std::int32_t(i)));
  }
}

TEST_CASE("shuffled documents and single ones are the same for any number of ranks, and go on without a state") {
  const weft_test::temporary_folder here;
  write_documents(here / "t", counted(4000));
  write_documents(here / "u", counted(900, 5000));
  constexpr std::int64_t count = 24, length = 16;
  for (const bool packed : {true, false}) {
    CAPTURE(packed);
    const token_settings settings{.shuffle_documents = true, .packed = packed};
    const auto batch_of = [&](std::int64_t step, int ranks, std::int64_t parts) {
      std::pair<std::vector<row>, std::vector<row>> out;
      for (std::int64_t m = 0; m < parts; ++m)
        for (int r = 0; r < ranks; ++r) {
          lone_rank at(ranks, r);
          const token_dataset data(at.ctx, {{here / "t", 3}, {here / "u", 1}}, settings);
          const auto b = data.train<ids>(step, m * (count / parts), count / parts, length, count);
          append(out.first, b.tokens), append(out.second, b.targets);
        }
      return out;
    };
    lone_rank whole_run;
    const token_dataset run(whole_run.ctx, {{here / "t", 3}, {here / "u", 1}}, settings);
    for (std::int64_t step = 1; step <= 17; ++step) {
      std::pair<std::vector<row>, std::vector<row>> unbroken;
      const auto b = run.train<ids>(step, 0, count, length, count);
      append(unbroken.first, b.tokens), append(unbroken.second, b.targets);
      if (step != 1 && step != 17) continue;  // the second file's second epoch
      for (const auto& [ranks, parts] : {std::pair{1, 1}, {2, 3}, {4, 1}, {4, 6}})
        CHECK(batch_of(step, ranks, parts) == unbroken);
    }
    lone_rank other(1, 0, 8);
    const token_dataset by_seed(other.ctx, {{here / "t", 3}, {here / "u", 1}}, settings);
    std::vector<row> mine;
    append(mine, by_seed.train<ids>(1, 0, count, length, count).tokens);
    CHECK(mine != batch_of(1, 1, 1).first);
  }
}

TEST_CASE("documents one by one: each from its first token, each target once an epoch, filled up without a loss") {
  const weft_test::temporary_folder here;
  lone_rank at;
  const auto documents = counted(2000, 1);
  write_documents(here / "t", documents);
  constexpr std::int64_t length = 16;
  const token_dataset data(at.ctx, here / "t", {.held_out = 0.1, .packed = false});
  const std::int64_t trained = data.training_tokens(), n = data.sequences(length);
  std::int64_t expected = 0;
  std::set<std::int32_t> firsts;
  for (const document& d : documents)
    if (!d.empty() && d[0] <= trained) {
      firsts.insert(d[0]);
      expected += (static_cast<std::int64_t>(d.size()) - 1 + length - 1) / length;
    }
  CHECK(n == expected);
  std::set<std::vector<row>> orders;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    const read_rows rows(data, epoch * n, n, length);
    orders.insert(rows.tokens);
    std::multiset<std::int32_t> targets;
    for (std::size_t r = 0; r < rows.tokens.size(); ++r) {
      std::size_t i = 0;
      for (; i < length && rows.targets[r][i] >= 0; ++i) {
        REQUIRE(rows.tokens[r][i] == rows.tokens[r][0] + std::int32_t(i));
        REQUIRE(rows.targets[r][i] == rows.tokens[r][i] + 1);
        REQUIRE(firsts.count(rows.targets[r][i]) == 0);  // no border within
        targets.insert(rows.targets[r][i]);
      }
      REQUIRE(i > 0);
      // A row ends where the document does, or is full.
      if (i < length) REQUIRE((firsts.count(rows.targets[r][i - 1] + 1) == 1 || rows.targets[r][i - 1] == trained));
      for (; i < length; ++i) REQUIRE((rows.tokens[r][i] == 0 && rows.targets[r][i] == -1));
    }
    std::multiset<std::int32_t> all;
    for (std::int32_t t = 1; t <= trained; ++t)
      if (firsts.count(t) == 0) all.insert(t);
    CHECK(targets == all);
  }
  CHECK(orders.size() == 3);
  std::vector<row> held;
  append(held, data.validation<ids>(0, 20, length).tokens);
  for (const row& r : held) CHECK(r[0] > trained);
}

TEST_CASE("files whose documents are rows are drawn by their rows, and by weights where they have them") {
  const weft_test::temporary_folder here;
  lone_rank at;
  const document few(1100, 1);
  write_documents(here / "t", std::vector<document>(200, document(11, 0)));
  write_documents(here / "u", std::vector<document>(2, few));  // as many tokens
  constexpr std::int64_t length = 128;
  const auto of_second = [&](const token_dataset& data, std::int64_t n) {
    const auto rows = read_rows(data, 0, n, length).tokens;
    return std::count_if(rows.begin(), rows.end(), [](const row& r) { return r[0] == 1; });
  };
  const token_dataset data(at.ctx, {{here / "t"}, {here / "u"}}, {.held_out = 0, .packed = false});
  CHECK(data.sequences(length) == 218);
  CHECK(of_second(data, 218) == 18);
  const token_dataset weighted(at.ctx, {{here / "t", 1}, {here / "u", 1}}, {.held_out = 0, .packed = false});
  CHECK(of_second(weighted, 200) == 100);
  const token_dataset held(at.ctx, {{here / "t"}, {here / "u"}}, {.held_out = 0.5, .packed = false});
  std::vector<row> rows;
  append(rows, held.validation<ids>(0, 109, length).tokens);
  CHECK(std::count_if(rows.begin(), rows.end(), [](const row& r) { return r[0] == 1; }) == 9);
}

TEST_CASE("ranks on threads of their own read the rows of many epochs as one does") {
  const weft_test::temporary_folder here;
  write_documents(here / "t", counted(400));
  constexpr std::int64_t length = 10;
  for (const bool packed : {true, false}) {
    const token_settings settings{.held_out = 0, .shuffle_documents = packed, .packed = packed};
    lone_rank alone;
    const token_dataset data(alone.ctx, here / "t", settings);
    const std::int64_t n = data.sequences(length);
    const read_rows whole(data, 0, 20 * n, length);  // more epochs than are kept
    std::vector<std::vector<row>> read(4);
    std::vector<std::thread> ranks;
    for (std::size_t r = 0; r < read.size(); ++r)
      ranks.emplace_back([&, r] {
        lone_rank at;
        const token_dataset own(at.ctx, here / "t", settings);
        for (std::int64_t i = 0; i < 20 * n; i += 7)  // at once in one epoch, then in another
          append(read[r], own.train<ids>((i + std::int64_t(r) * 5 * n) % (20 * n) + 1, 0, 1, length, 1).tokens);
      });
    for (std::thread& t : ranks) t.join();
    for (std::size_t r = 0; r < read.size(); ++r)
      for (std::size_t i = 0; i < read[r].size(); ++i)
        REQUIRE(read[r][i] ==
                whole.tokens[(i * 7 + r * 5 * static_cast<std::size_t>(n)) % static_cast<std::size_t>(20 * n)]);
  }
}

TEST_CASE("ends that are put in and losses stay with their documents") {
  const weft_test::temporary_folder here;
  lone_rank at;
  write_documents(here / "t", {{1, 2, 3}, {4}, {}, {5, 6}});
  write_documents(here / "t.loss", {{1, 0, 1}, {0}, {}, {0, 1}}, 2);
  // Behind each token its target: the next one of its document, -1 where the loss leaves that out.
  const std::map<std::int32_t, std::int32_t> inner{{1, -1}, {2, 3}, {3, 9}, {4, -1}, {5, 6}, {6, 9}};
  std::set<row> orders;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    lone_rank with(1, 0, seed);
    const token_dataset data(with.ctx, here / "t", {.held_out = 0, .end_token = 9, .shuffle_documents = true});
    CHECK(data.training_tokens() == 10);
    const read_rows rows(data, 0, 1, 9);
    orders.insert(rows.tokens[0]);
    for (std::size_t i = 0; i < 9; ++i) {
      const std::int32_t t = rows.tokens[0][i], next = rows.targets[0][i];
      if (t != 9) CHECK(next == inner.at(t));
      // Behind an end: 1 counts, 4 and 5 don't; an end of the empty document has no loss before it.
      if (t == 9) CHECK((next == 1 || next == -1));
    }
  }
  CHECK(orders.size() > 8);  // of 23 rows that four documents can make; 40 seeds draw all but a few

  const token_dataset one_by_one(at.ctx, here / "t", {.held_out = 0, .end_token = 9, .packed = false});
  CHECK(one_by_one.sequences(4) == 3);
  const read_rows rows(one_by_one, 0, 3, 4);
  std::set<std::pair<row, row>> all;
  for (std::size_t r = 0; r < 3; ++r) all.emplace(rows.tokens[r], rows.targets[r]);
  CHECK(all == std::set<std::pair<row, row>>{
                   {{1, 2, 3, 0}, {-1, 3, 9, -1}}, {{4, 0, 0, 0}, {-1, -1, -1, -1}}, {{5, 6, 0, 0}, {6, 9, -1, -1}}});
}

TEST_CASE("a file that is one document, and files without a document of two tokens") {
  const weft_test::temporary_folder here;
  lone_rank at;
  document one(100);
  for (std::int32_t i = 0; i < 100; ++i) one[static_cast<std::size_t>(i)] = i;
  write_documents(here / "t", {one});
  const token_dataset whole(at.ctx, here / "t", {.held_out = 0.2, .shuffle_documents = true});
  for (const row& r : read_rows(whole, 0, 14, 10).tokens) CHECK((r[9] == r[0] + 9 && r[9] < 80));
  const token_dataset single(at.ctx, here / "t", {.held_out = 0.2, .packed = false});
  CHECK(single.sequences(50) == 2);
  CHECK(single.can_validate(1000));
  write_documents(here / "u", {{1}, {}, {2}});
  const token_dataset none(at.ctx, here / "u", {.held_out = 0, .packed = false});
  CHECK(none.sequences(4) == 0);
  CHECK(said_by([&] { none.train<ids>(1, 0, 1, 4, 1); }).find("u has 2 tokens to train on, and no document of two; ") !=
        std::string::npos);
  CHECK_FALSE(none.can_validate(4));
  CHECK(said_by([&] { none.validation<ids>(0, 1, 4); }).find("for validation, and no document of two; ") !=
        std::string::npos);
  write_documents(here / "v", {{1, 2}, {}, {3, 4}});
  CHECK(token_dataset(at.ctx, here / "v", {.held_out = 0, .packed = false}).sequences(1) == 2);
  const token_dataset shuffled(at.ctx, here / "u", {.held_out = 0, .shuffle_documents = true});
  CHECK(read_rows(shuffled, 0, 1, 1).tokens[0][0] + read_rows(shuffled, 0, 1, 1).targets[0][0] == 3);
}

TEST_CASE("sums of which each 32nd is kept find what all would") {
  const auto size = [](std::int64_t i) {
    const auto w = std::int64_t{philox{3, 4}.word(static_cast<std::uint64_t>(i))};
    return w % 3 == 0 ? 0 : w % 7;
  };
  for (const std::int64_t n : {0, 1, 31, 32, 33, 64, 1000}) {
    const detail::sparse_sums sums(n, size);
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t o = 0; o < size(i); ++o, ++at) {
        const auto found = sums.find(at, size);
        REQUIRE((found.item == i && found.offset == o));
      }
    CHECK(sums.total() == at);
  }
  const detail::recent_sums recent;
  int made = 0;
  const auto get = [&](std::uint64_t k) {
    return recent.get({k, 0, 0, 0, 0}, [&] { return ++made, detail::sparse_sums(std::int64_t(k), size); });
  };
  const auto first = get(1);
  for (std::uint64_t k = 2; k < 18; ++k) get(k), get(1);
  CHECK(get(1) == first);
  CHECK(made == 17);
  get(17);
  CHECK(made == 17);
  get(2);  // the one that was used longest ago
  CHECK(made == 18);
}
