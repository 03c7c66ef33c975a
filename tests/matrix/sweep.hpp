// Every strategy of one model and one precision, as a list that a program or a test walks through.
#pragma once

#include <numeric>

#include "cell.hpp"

namespace matrix {

/// A strategy by its values' names, and what runs it on a mesh.
struct entry {
  int index;  // among all strategies of the matrix, model and precision aside
  std::string_view sharding, checkpointing;
  bool sequence_parallel;
  std::vector<degrees> meshes;
  verdict (*run)(const degrees&);
};

template <class L>
inline constexpr int count_of = 0;
template <class... Ts>
inline constexpr int count_of<tag_list<Ts...>> = sizeof...(Ts);
constexpr int strategies = count_of<shardings> * count_of<checkpointings> * count_of<betweens>;

/// The entries whose index `Pick` takes; the others are not compiled.
template <template <class> class Model, class Precision, class Pick>
std::vector<entry> entries(Pick) {
  std::vector<entry> out;
  const auto add = [&]<int Index, class Sharding, class Checkpointing, class Between>() {
    if constexpr (Pick::takes(Index)) {
      using S = typename strategy_of<Precision, Sharding, Checkpointing, Between>::type;
      using serial = strategy<mesh<>, Precision>;
      out.push_back({Index, Sharding::name, Checkpointing::name, S::sequence_parallel, meshes<S>(),
                     run_cell<Model<S>, Model<serial>, Model<planned<S>>>});
    }
  };
  constexpr int n = count_of<checkpointings>, b = count_of<betweens>;
  const auto three = [&]<int At, class Sharding, class Checkpointing, class... Bs>(tag_list<Bs...>) {
    [&]<int... I>(std::integer_sequence<int, I...>) {
      (add.template operator()<At * b + I, Sharding, Checkpointing, Bs>(), ...);
    }
    (std::make_integer_sequence<int, b>{});
  };
  const auto two = [&]<int At, class Sharding, class... Cs>(tag_list<Cs...>) {
    [&]<int... I>(std::integer_sequence<int, I...>) {
      (three.template operator()<At * n + I, Sharding, Cs>(betweens{}), ...);
    }
    (std::make_integer_sequence<int, n>{});
  };
  [&]<class... Ss>(tag_list<Ss...>) {
    [&]<int... I>(std::integer_sequence<int, I...>) { (two.template operator()<I, Ss>(checkpointings{}), ...); }
    (std::make_integer_sequence<int, sizeof...(Ss)>{});
  }(shardings{});
  return out;
}

/// Layers whose activations a rank has at once: its stage's, of each micro-batch in flight.
inline int layers_in_flight(const degrees& mesh, int rank) {
  const int stage = rank / (static_cast<int>(mesh.product()) / mesh.pp);
  std::vector<int> stages(static_cast<std::size_t>(mesh.pp));
  std::iota(stages.begin(), stages.end(), 0);
  const auto own = static_cast<int>(stage_places(layers, stages, {stage}).layers_before(1));
  return own * load_of<one_f_one_b>(stage, mesh.pp, micro_batches).in_flight;
}

/// Where a rank of one configuration holds more of activations than it may beside the other checkpointing policies;
/// empty: nowhere. `cells`: under none, selective and full, as many ranks each.
///
/// Full holds less than selective on every rank, and no more than none: while a layer runs for the first time, all that
/// its backward would read is there, as without recomputation, so that of one layer in flight full may hold as much.
/// Selective then holds more than none: what it keeps is there too, and of that the products from which what the
/// backward reads is made (queries before they are turned, a block's output before its bias is added) are nothing that
/// none keeps. What it saves of the layers before is more than that from three layers in flight on.
inline std::string too_many_activations(const std::vector<verdict>& cells, const degrees& mesh) {
  const std::vector<rank_use>&none = cells[0].used, &some = cells[1].used, &full = cells[2].used;
  for (std::size_t r = 0; r < none.size() && r < some.size() && r < full.size(); ++r) {
    const int in_flight = layers_in_flight(mesh, static_cast<int>(r));
    const std::size_t held[] = {none[r].activations, some[r].activations, full[r].activations};
    if (held[2] < held[1] && (held[2] < held[0] || (held[2] == held[0] && in_flight == 1)) &&
        (held[1] < held[0] || in_flight <= 2))
      continue;
    return "rank " + std::to_string(r) + ", with the activations of " + std::to_string(in_flight) +
           " layers in flight, holds " + std::to_string(held[2]) + " bytes of activations under full, " +
           std::to_string(held[1]) + " under selective and " + std::to_string(held[0]) + " under none";
  }
  return {};
}

struct all_of_them {
  static constexpr bool takes(int) { return true; }
};

}  // namespace matrix
