// Calls compared over processes: the laws, and a strategy's ranks that take two ways of a program.
#include <string>

#include <doctest/doctest.h>

#include <weft/comm/mpi.hpp>
#include <weft/testing/communicator.hpp>
#include <weft/weft.hpp>

#include "comm/watch.hpp"
#include "world.hpp"

using namespace weft;

TEST_CASE("a checked communicator over processes obeys the laws") {
  testing::check_communicator<checked<mpi>>(processes());
}

TEST_CASE("mpi's own launch with its ranks' calls compared") {
  mpi::launch_checked(processes(), [](auto& c) {
    static_assert(std::same_as<decltype(c), checked<mpi>&>);
    int x = 1;
    c.all_reduce(&x, &x, 1, dtype::i32, reduction::sum).wait();
    require(x == c.size(), "a sum of ones is ", x);
  });
}

TEST_CASE("with check, a strategy's ranks that take two sums in another order are told") {
  const watchdog guard("two sums in another order", 300);
  const auto program = [](context& ctx) {
    auto x = normal<tensor<float, dims<batch, hidden>>>(ctx, "x", {2, 4});
    auto a = convert<partial<tp>>(x), b = convert<partial<tp>>(x * x);
    if (ctx.index<tp>() == 0) {
      all_reduce<tp>(a);
      all_reduce<tp>(b);
    } else {
      all_reduce<tp>(b);
      all_reduce<tp>(a);
    }
  };
  const auto run = [&] { launch<strategy<mesh<tp>, mpi>>({.tp = processes()}, program, {.check = true}); };
  if (processes() == 1) return run();
  std::string said = "nothing";
  try {
    run();
  } catch (const failure& e) {
    said = e.what();
  }
  CAPTURE(said);
  CHECK(said.starts_with("The ranks of group 'tp' disagree on their collective number "));
  CHECK(said.find("rank 0 calls all_reduce(8 fp32, sum) for [batch, hidden] (checked_test.cpp:") != said.npos);
  CHECK(said.find("; rank 1 calls all_reduce(8 fp32, sum) for [batch, hidden] (checked_test.cpp:") != said.npos);
}
