#include <cmath>
#include <set>

#include <doctest/doctest.h>

#include <weft/comm/single_rank.hpp>
#include <weft/io/text_dataset.hpp>

#include "../temporary.hpp"

using namespace weft;
using ids = tensor<std::int32_t, dims<batch, seq>, shard<batch, dp>>;
using ids_by_two = tensor<std::int32_t, dims<batch, seq>, shard<batch, dp>, shard<seq, cp>>;

namespace {

// The context that one rank of a mesh has, with nobody to talk to: making data takes no communication.
struct lone_rank {
  context ctx;
  lone_rank(int dp_degree, int dp_index, std::uint64_t seed = 7, int cp_degree = 1, int cp_index = 0)
      : ctx(any_communicator(), seed) {
    ctx.add_axis({id_of<dp>, "dp", dp_degree, dp_index, {}});
    ctx.add_axis({id_of<cp>, "cp", cp_degree, cp_index, {}});
    ctx.set_queue<cpu_backend>(std::make_shared<cpu_backend::queue>(1));
  }
};

std::shared_ptr<const text_corpus> some_text(int bytes = 4000) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(philox{3, 4}.word(static_cast<std::uint64_t>(i)) % 256);
  return std::make_shared<const text_corpus>("some text", text);
}

using rows = std::vector<std::vector<int>>;
template <class X>
void append(rows& to, const X& x) {
  const auto n = x.template local_extent<seq>();
  const auto own = x.local_share();
  for (std::int64_t r = 0; r < x.template local_extent<batch>(); ++r)
    to.emplace_back(own.begin() + r * n, own.begin() + (r + 1) * n);
}

}  // namespace

TEST_CASE("a batch is the same for every sharding and every number of micro-batches") {
  const auto text = some_text();
  constexpr std::int64_t count = 24, length = 16;
  const auto batch_of = [&](std::int64_t step, int ranks, std::int64_t parts) {
    rows tokens, targets;
    for (std::int64_t m = 0; m < parts; ++m)
      for (int r = 0; r < ranks; ++r) {
        lone_rank at(ranks, r);
        const auto b = text_dataset(at.ctx, text).train<ids>(step, m * (count / parts), count / parts, length);
        CHECK(b.tokens.local_extent<batch>() == count / parts / ranks);
        append(tokens, b.tokens), append(targets, b.targets);
      }
    return std::pair(tokens, targets);
  };
  const auto whole = batch_of(1, 1, 1);
  CHECK(whole.first.size() == count);
  for (int ranks : {1, 2, 3})
    for (std::int64_t parts : {1, 2, 4}) {
      CAPTURE(ranks);
      CAPTURE(parts);
      CHECK(batch_of(1, ranks, parts) == whole);
    }
  CHECK(batch_of(2, 1, 1) != whole);
  CHECK(std::set<std::vector<int>>(whole.first.begin(), whole.first.end()).size() >
        count / 2);  // not one window for all
}

TEST_CASE("a sequence can be sharded as well") {
  const auto text = some_text();
  lone_rank whole(1, 0);
  const auto all = text_dataset(whole.ctx, text).train<ids>(1, 0, 2, 8);
  for (int part = 0; part < 2; ++part) {
    lone_rank at(1, 0, 7, 2, part);
    const auto b = text_dataset(at.ctx, text).train<ids_by_two>(1, 0, 2, 8);
    for (int r = 0; r < 2; ++r)
      for (int c = 0; c < 4; ++c) {
        CHECK(b.tokens.local_share()[r * 4 + c] == all.tokens.local_share()[r * 8 + part * 4 + c]);
        CHECK(b.targets.local_share()[r * 4 + c] == all.targets.local_share()[r * 8 + part * 4 + c]);
      }
  }
}

TEST_CASE("targets are the next tokens, windows lie in their part, and the seed matters") {
  // Byte i of the text tells where it stands: its value changes at 3000 from below 128 to above.
  std::string marked;
  for (int i = 0; i < 4000; ++i) marked += static_cast<char>(i < 3000 ? i % 100 : 128 + i % 100);
  const auto text = std::make_shared<const text_corpus>("marked", marked);
  lone_rank at(1, 0);
  const text_dataset data(at.ctx, text, 0.25);
  CHECK(data.training_bytes() == 3000);
  CHECK(data.validation_bytes() == 1000);
  const auto b = data.train<ids>(3, 0, 500, 20);
  const auto v = data.validation<ids>(0, 500, 20);
  for (std::int64_t i = 0; i < 500 * 20; ++i) {
    const int t = b.tokens.local_share()[i];
    REQUIRE(t < 100);
    REQUIRE(b.targets.local_share()[i] == (t + 1) % 100);
    REQUIRE(v.tokens.local_share()[i] >= 128);
    REQUIRE(v.targets.local_share()[i] == 128 + (v.tokens.local_share()[i] - 127) % 100);
  }
  rows one, two, other;
  append(one, v.tokens), append(two, data.validation<ids>(0, 500, 20).tokens);
  CHECK(one == two);
  lone_rank elsewhere(1, 0, 8);
  append(other, text_dataset(elsewhere.ctx, text, 0.25).validation<ids>(0, 500, 20).tokens);
  CHECK(one != other);
}

TEST_CASE("the shortest text that will do, and one byte less") {
  lone_rank at(1, 0);
  const text_dataset data(at.ctx, std::make_shared<const text_corpus>("short", "abcdefghi"), 0);
  const auto b = data.train<ids>(1, 0, 1, 8);
  CHECK(b.tokens.local_share()[0] == 'a');
  CHECK(b.targets.local_share()[7] == 'i');
  CHECK_THROWS_WITH_AS(data.train<ids>(1, 0, 1, 9),
                       "the corpus short has 9 bytes to train on, fewer than a sequence of 9 and the byte after it; "
                       "give a longer text or a smaller seq",
                       failure);
  CHECK_THROWS_AS(text_dataset::check(data.corpus(), 0.5, 8), failure);
  CHECK_FALSE(data.can_validate(1));
  CHECK_THROWS_AS(data.validation<ids>(0, 1, 8), failure);
}

TEST_CASE("a file is read once a process, and what is wrong with it is said") {
  const weft_test::temporary_folder folder;
  const std::string path = folder / "text.txt";
  write_file(path, "ab");
  const auto first = open_corpus(path);
  CHECK(first.get() == open_corpus(path).get());
  CHECK(first->bytes == "ab");

  write_file(folder / "empty.txt", "");
  CHECK_THROWS_WITH_AS(open_corpus(folder / "empty.txt"), doctest::Contains("is empty; give a file with text in it"),
                       failure);
  CHECK_THROWS_WITH_AS(open_corpus(folder / "missing.txt"),
                       doctest::Contains("missing.txt can't be read: No such file"), failure);
  CHECK_THROWS_WITH_AS(open_corpus(folder.path()), doctest::Contains("Is a directory"), failure);
}

TEST_CASE("unigram entropy") {
  CHECK(unigram_entropy("aaaa") == doctest::Approx(0));
  CHECK(unigram_entropy("abab") == doctest::Approx(std::log(2.0)));
  CHECK(unigram_entropy("aaab") == doctest::Approx(-0.75 * std::log(0.75) - 0.25 * std::log(0.25)));
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  CHECK(unigram_entropy(all) == doctest::Approx(std::log(256.0)));
}
