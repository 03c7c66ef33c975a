// What the sweep says of cells that differ in checkpointing alone, and what it finds of one model: by plans, which are
// what the ranks hold.
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "matrix/sweep.hpp"

namespace {

std::string said(std::vector<std::size_t> none, std::vector<std::size_t> some, std::vector<std::size_t> full,
                 const weft::degrees& mesh) {
  std::vector<matrix::verdict> cells(3);
  const auto note = [&](std::size_t cell, const std::vector<std::size_t>& activations) {
    for (const std::size_t n : activations) cells[cell].used.push_back({"", 2 * n, n, 0});
  };
  note(0, none), note(1, some), note(2, full);
  return matrix::too_many_activations(cells, mesh);
}

using sharding = matrix::replicated;
template <class Checkpointing>
matrix::verdict planned_cell(const weft::degrees& mesh) {
  using S = typename matrix::strategy_of<matrix::fp32, sharding, Checkpointing, matrix::whole_between>::type;
  matrix::verdict v;
  v.used = matrix::plan<weft::gpt2<weft::planned<S>>, S>(mesh, matrix::rows_for(mesh));
  return v;
}

}  // namespace

TEST_CASE("matrix: a rank that holds more of activations than it may beside other policies is named") {
  const weft::degrees one{}, three{.pp = 3}, five{.pp = 5};  // five layers in flight; 3, 4, 2; 3, 3, 3, 2, 1
  CHECK(said({9}, {7}, {6}, one).empty());
  CHECK(
      said({9}, {9}, {6}, one) ==
      "rank 0, with the activations of 5 layers in flight, holds 6 bytes of activations under full, 9 under selective "
      "and 9 under none");
  CHECK(said({9}, {7}, {7}, one) != "");
  CHECK(said({9, 9, 9}, {7, 7, 7}, {6, 6, 6}, three).empty());
  CHECK(said({9, 9, 9}, {7, 7, 10}, {6, 6, 8}, three).empty());
  CHECK(said({9, 9, 9}, {7, 7, 10}, {6, 6, 9}, three).starts_with("rank 2, with the activations of 2 layers"));
  CHECK(said({9, 9, 9}, {7, 9, 7}, {6, 6, 6}, three).starts_with("rank 1, with the activations of 4 layers"));
  CHECK(said({9, 9, 9, 9, 9}, {7, 7, 7, 7, 11}, {6, 6, 6, 6, 9}, five).empty());
  CHECK(said({9, 9, 9, 9, 9}, {7, 7, 7, 7, 11}, {6, 6, 6, 6, 10}, five).starts_with("rank 4, with"));
  CHECK(said({9, 9, 9, 9, 9}, {7, 7, 7, 7, 9}, {6, 6, 6, 6, 9}, five).starts_with("rank 4, with"));
  CHECK(said({}, {}, {}, one).empty());  // refused
}

TEST_CASE("matrix: a rank has its stage's layers of each micro-batch in flight") {
  CHECK(matrix::layers_in_flight({}, 0) == 5);
  CHECK(matrix::layers_in_flight({.dp = 2, .pp = 3}, 1) == 3);  // one of five layers, three micro-batches
  CHECK(matrix::layers_in_flight({.dp = 2, .pp = 3}, 2) == 4);  // two layers, two micro-batches
  CHECK(matrix::layers_in_flight({.dp = 2, .pp = 3}, 5) == 2);
  CHECK(matrix::layers_in_flight({.pp = 4}, 2) == 2);
}

TEST_CASE(
    "matrix: on every rank full holds less than selective and no more than none, which holds more from three "
    "layers in flight on") {
  std::map<int, double> more;  // layers in flight where selective holds more than none: how many times as much
  std::set<int> as_much;       // and where full holds as much
  for (const weft::degrees& mesh : matrix::meshes<
           matrix::strategy_of<matrix::fp32, sharding, weft::checkpoint_none, matrix::whole_between>::type>()) {
    if (!matrix::legal(mesh) || mesh.dp > 1) continue;
    CAPTURE(matrix::name_of(mesh));
    const std::vector<matrix::verdict> cells{planned_cell<weft::checkpoint_none>(mesh),
                                             planned_cell<matrix::selective>(mesh),
                                             planned_cell<weft::checkpoint_full>(mesh)};
    CHECK(matrix::too_many_activations(cells, mesh) == "");
    for (std::size_t r = 0; r < cells[0].used.size(); ++r) {
      const int in_flight = matrix::layers_in_flight(mesh, static_cast<int>(r));
      const double times = double(cells[1].used[r].activations) / double(cells[0].used[r].activations);
      if (times > 1) more[in_flight] = std::max(more[in_flight], times);
      if (cells[2].used[r].activations == cells[0].used[r].activations) as_much.insert(in_flight);
    }
  }
  REQUIRE(more.count(1));  // so no less can be asked
  MESSAGE("selective holds at most " << more[1] << " times as much as none of one layer in flight");
  CHECK(more.size() == 1);  // of two as well in this model, which the sweep doesn't ask of all
  CHECK(as_much == std::set{1});
}
