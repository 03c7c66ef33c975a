// Every strategy of one model and one precision, as a list that a program or a test walks through.
#pragma once

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
  const int own = static_cast<int>(layers) / mesh.pp + (stage < static_cast<int>(layers) % mesh.pp);
  return own * load_of<one_f_one_b>(stage, mesh.pp, micro_batches).in_flight;
}

/// Where a rank of one configuration doesn't hold less of activations under each checkpointing policy than under the
/// one before it in the list; empty: nowhere. `cells`: by policy, as many ranks each. asked(rank): whether it has to.
template <class Asked>
std::string rising_activations(const std::vector<verdict>& cells, const std::vector<std::string_view>& names,
                               const Asked& asked) {
  for (std::size_t c = 1; c < cells.size(); ++c)
    for (std::size_t r = 0; r < cells[c].used.size() && r < cells[c - 1].used.size(); ++r) {
      const std::size_t more = cells[c - 1].used[r].activations, less = cells[c].used[r].activations;
      if (less >= more && asked(static_cast<int>(r)))
        return "rank " + std::to_string(r) + " holds " + std::to_string(less) + " bytes of activations under " +
               std::string(names[c]) + ", and " + std::to_string(more) + " under " + std::string(names[c - 1]);
    }
  return {};
}

struct all_of_them {
  static constexpr bool takes(int) { return true; }
};

}  // namespace matrix
