// sweep [FROM]: every cell of one model and one precision (WEFT_MATRIX_MODEL, WEFT_MATRIX_PRECISION), a line each:
//   model|precision|sharding|checkpointing|between|mesh|ranks|same, refused or
//   WRONG|loss|first|last|peak|activations|received|planned peak|planned received|sentence
// peak, activations: bytes of the rank that holds most; received: from other ranks, bytes a step, the mean over the
// ranks; planned: the same by the run's plan. Cells that differ in their checkpointing alone follow one another. FROM
// leaves out so many cells, all of a configuration or none, which an interrupted run has done already. First come
// `cells|` and their number, `together|` and how many make a configuration, and `tolerance|precision|loss|first|last`.
#include "sweep.hpp"

#include <cstdio>
#include <cstdlib>

#define WEFT_MATRIX_TEXT(x) #x
#define WEFT_MATRIX_NAME(x) WEFT_MATRIX_TEXT(x)

namespace {

struct cell_use {
  std::size_t peak = 0, activations = 0;
  double received = 0;
};
cell_use over(const std::vector<matrix::rank_use>& ranks) {
  cell_use out;
  for (const matrix::rank_use& rank : ranks) {
    out.peak = std::max(out.peak, rank.peak);
    out.activations = std::max(out.activations, rank.activations);
    out.received += static_cast<double>(rank.received) / static_cast<double>(ranks.size());
  }
  return out;
}

void print(const matrix::entry& e, const weft::degrees& mesh, const matrix::verdict& v) {
  const cell_use run = over(v.used), planned = over(v.planned);
  std::printf("%s|%s|%s|%s|%s|%s|%d|%s|%.3g|%.3g|%.3g|%zu|%zu|%.0f|%zu|%.0f|%s\n", WEFT_MATRIX_NAME(WEFT_MATRIX_MODEL),
              WEFT_MATRIX_NAME(WEFT_MATRIX_PRECISION), std::string(e.sharding).c_str(),
              std::string(e.checkpointing).c_str(), e.sequence_parallel ? "sharded" : "whole",
              matrix::name_of(mesh).c_str(), static_cast<int>(mesh.product()),
              !v.good   ? "WRONG"
              : v.legal ? "same"
                        : "refused",
              v.off.loss, v.off.first, v.off.last, run.peak, run.activations, run.received, planned.peak,
              planned.received, v.refusal.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  using precision = matrix::WEFT_MATRIX_PRECISION;
  constexpr int together = matrix::count_of<matrix::checkpointings>, betweens = matrix::count_of<matrix::betweens>;
  const auto entries = matrix::entries<matrix::WEFT_MATRIX_MODEL, precision>(matrix::all_of_them{});
  if (argc == 1) {
    std::size_t cells = 0;
    for (const matrix::entry& e : entries) cells += e.meshes.size();
    constexpr matrix::tolerance t = matrix::tolerance_of<precision>;
    std::printf("cells|%zu\ntogether|%d\ntolerance|%s|%g|%g|%g\n", cells, together,
                WEFT_MATRIX_NAME(WEFT_MATRIX_PRECISION), t.loss, t.first, t.last);
  }
  matrix::compared_threads::by_messages = true;
  int skip = argc > 1 ? std::atoi(argv[1]) : 0;
  int wrong = 0;
  for (int first = 0; first < matrix::strategies; ++first) {
    if (first / betweens % together != 0) continue;
    std::vector<const matrix::entry*> with;  // by checkpointing policy
    for (int c = 0; c < together; ++c) with.push_back(&entries[static_cast<std::size_t>(first + c * betweens)]);
    for (const weft::degrees& mesh : with[0]->meshes) {
      if ((skip -= together) >= 0) continue;
      std::vector<matrix::verdict> cells;
      for (const matrix::entry* e : with) cells.push_back(e->run(mesh));
      const std::string rising = matrix::too_many_activations(cells, mesh);
      for (std::size_t c = 0; c < cells.size(); ++c) {
        if (!rising.empty() && cells[c].good) cells[c].good = false, cells[c].refusal = rising;
        print(*with[c], mesh, cells[c]);
        wrong += !cells[c].good;
      }
      std::fflush(stdout);
    }
  }
  return wrong ? 1 : 0;
}
