// A rank that is planned: what its table says, what is refused, and that it costs nothing of this machine.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <weft/plan/training.hpp>
#include <weft/weft.hpp>

using namespace weft;

namespace {
const llama_config small{.layers = 4, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 56, .vocab = 258, .max_seq = 24};
}  // namespace

TEST_CASE("plan: what a table says") {
  rank_plan p;
  p.rank = 3, p.ranks = 8, p.places = {{"tp", 1, 2}, {"pp", 0, 1}}, p.peak_in = "backward head";
  p.memory.peak_total = 5 * 1024;
  p.memory.peak[0] = p.memory.at_peak[0] = std::size_t{3} << 40;
  p.collectives = {{"all_reduce", "tp", 7, 2000, 1000}};
  CHECK(table_of(p) ==
        "rank 3 of 8 (tp 1 of 2): 5.00 KiB at most, in backward head\n"
        "  memory                               then  its highest\n"
        "  parameters                       3.00 TiB     3.00 TiB\n"
        "  scratch of kernels                         not planned\n"
        "  collectives of a step               calls     receives\n"
        "  all_reduce tp                           7       1000 B\n");
  CHECK(nlohmann::json::parse(json_of(p))["scratch"].is_null());
  p.memory.scratch = 3 * 1024;
  CHECK(table_of(p).find("  scratch of kernels                            3.00 KiB\n") != std::string::npos);
  const auto read = nlohmann::json::parse(json_of(p));
  CHECK(read["scratch"] == 3 * 1024);
  CHECK(read["places"]["tp"]["size"] == 2);
  CHECK(read["peak"] == 5 * 1024);
  CHECK(read["categories"]["parameters"]["at_peak"] == std::int64_t{3} << 40);
  CHECK(read["collectives"][0]["wire_bytes"] == 1000);
}

TEST_CASE("plan: what it refuses") {
  using S = strategy<mesh<dp, tp>>;
  CHECK_THROWS_WITH_AS(planned_rank<S>({.dp = 2}, 2), "rank 2 is to be planned, and the degrees make ranks 0 to 1",
                       failure);
  CHECK_THROWS_AS(planned_rank<S>({.pp = 2}, 0), failure);
  CHECK_THROWS_AS((plan_stages<llama, S>(small, {.dp = 0}, {})), failure);
  CHECK_THROWS_WITH_AS((plan_training<llama, S>(small, {.dp = 2}, {.batch = 3})),
                       doctest::Contains("doesn't divide into 1 micro-batches on 2 data-parallel ranks"), failure);
  CHECK_THROWS_WITH_AS((plan_training<llama, S>(small, {.tp = 3}, {.batch = 3})), doctest::Contains("tp"), failure);
  CHECK_THROWS_WITH_AS((plan_training<llama, S>(small, {.dp = 2}, {.batch = 2, .seq = -3})),
                       doctest::Contains("seq is -3; a sequence has at least 1 token"), failure);
  llama_config huge = small;
  huge.vocab = huge.hidden = std::int64_t{1} << 30;
  CHECK_THROWS_WITH_AS((plan_training<llama, S>(huge, {}, {.batch = 1})), doctest::Contains("at most 2^58 elements"),
                       failure);
  CHECK_THROWS_WITH_AS(launch<planned<S>>({.dp = 2}, [](context&) {}),
                       doctest::Contains("a plan's strategy is not launched"), failure);
  CHECK_THROWS_WITH_AS(planned_rank<S>({}, 0, {.threads_per_rank = 0}), doctest::Contains("threads_per_rank is 0"),
                       failure);
  planned_rank<S> one({.dp = 2}, 0);
  CHECK_THROWS_WITH_AS(full<token_ids<S>>(one.ctx(), {4, 4}, 1), doctest::Contains("names another backend"), failure);
  CHECK_THROWS_WITH_AS(one.ctx().world.split(0, 0, "pairs"), doctest::Contains("make it an axis"), failure);
}

TEST_CASE("plan: numbers in the host's memory are those of this rank") {
  planned_group three(1, 3, {});
  double mine[2] = {5, 0}, got[2] = {};
  three.all_reduce(mine, got, 2, dtype::f64, reduction::sum).wait();
  CHECK((got[0] == 5 && got[1] == 0));
  mine[0] = 0;
  three.all_reduce(mine, got, 2, dtype::f64, reduction::sum).wait();
  CHECK((got[0] == 1 && got[1] == 1));
  three.all_reduce(mine, mine, 2, dtype::f64, reduction::max).wait();
  CHECK((mine[0] == 0 && mine[1] == 0));
  std::int32_t all[6] = {0, 1, 2, 3, 4, 5}, part[2] = {};
  three.reduce_scatter(all, part, 2, dtype::i32, reduction::sum).wait();
  CHECK((part[0] == 2 && part[1] == 3));
  three.all_gather(part, all, sizeof part).wait();
  CHECK((all[0] == 2 && all[3] == 3 && all[4] == 2 && all[5] == 3));
  three.recv(part, sizeof part, 0, 0).wait();
  CHECK((part[0] == 0 && part[1] == 0));
  CHECK_THROWS_AS(three.send(part, 8, 3, 0).wait(), failure);
  CHECK_THROWS_WITH_AS(three.recv(part, 8, 0, 32768).wait(), "recv has the tag 32768; tags are 0 to 32767.", failure);
}

TEST_CASE("plan: several ranks at once, beside a rank that runs") {
  using S = strategy<mesh<dp>>;
  using numbers = tensor<float, dims<hidden>, replicate<dp>>;
  launch<S>({}, [](context& ctx) {
    const auto own = full<numbers>(ctx, {2}, 1);
    auto a = std::make_unique<planned_rank<S>>(degrees{.dp = 2}, 0),
         b = std::make_unique<planned_rank<S>>(degrees{.dp = 2}, 1);
    const auto make = [](planned_rank<S>& of) { return of.ctx().make(dtype::f32, {1, {4}}); };
    CHECK(detail::is_planned(make(*a).data));
    CHECK(item(sum(own)) == 2);
    a.reset();
    CHECK(detail::is_planned(make(*b).data));
    CHECK(item(sum(own)) == 2);
  });
}

TEST_CASE("plan: a chunk of a rank's memory is no memory of the process") {
  planned_rank<strategy<mesh<>>> one({}, 0);
  const local_array x = one.ctx().make(dtype::f32, {1, {std::int64_t{1} << 40}});  // 4 TiB
  CHECK(detail::is_planned(x.data));
  CHECK(one.report().memory.peak_total == std::size_t{4} << 40);
}

TEST_CASE("plan: sizes cost no memory of this machine") {
  using S = strategy<mesh<dp>, zero3, bf16_mixed>;
  llama_config c = small;
  c.max_seq = std::int64_t{1} << 24;  // a table of angles of 16 GiB
  const rank_plan p = plan_training<llama, S>(c, {.dp = 2}, {.batch = 1 << 20});
  CHECK(p.memory.peak_total > std::size_t{1} << 45);
}
