// sweep [FROM]: every cell of one model and one precision (WEFT_MATRIX_MODEL, WEFT_MATRIX_PRECISION), a line each:
//   model|precision|sharding|checkpointing|between|mesh|ranks|same, refused or WRONG|loss|first|last|sentence
// FROM leaves out so many cells, which an interrupted run has done already. First comes `cells|` and their number, and
// `tolerance|precision|loss|first|last`.
#include "sweep.hpp"

#include <cstdio>
#include <cstdlib>

#define WEFT_MATRIX_TEXT(x) #x
#define WEFT_MATRIX_NAME(x) WEFT_MATRIX_TEXT(x)

int main(int argc, char** argv) {
  using precision = matrix::WEFT_MATRIX_PRECISION;
  const auto entries = matrix::entries<matrix::WEFT_MATRIX_MODEL, precision>(matrix::all_of_them{});
  if (argc == 1) {
    std::size_t cells = 0;
    for (const matrix::entry& e : entries) cells += e.meshes.size();
    constexpr matrix::tolerance t = matrix::tolerance_of<precision>;
    std::printf("cells|%zu\ntolerance|%s|%g|%g|%g\n", cells, WEFT_MATRIX_NAME(WEFT_MATRIX_PRECISION), t.loss, t.first,
                t.last);
  }
  int skip = argc > 1 ? std::atoi(argv[1]) : 0;
  int wrong = 0;
  for (const matrix::entry& e : entries)
    for (const weft::degrees& mesh : e.meshes) {
      if (skip-- > 0) continue;
      const matrix::verdict v = e.run(mesh, false);
      const char* what = !v.good ? "WRONG" : v.legal ? "same" : "refused";
      std::printf("%s|%s|%s|%s|%s|%s|%d|%s|%.3g|%.3g|%.3g|%s\n", WEFT_MATRIX_NAME(WEFT_MATRIX_MODEL),
                  WEFT_MATRIX_NAME(WEFT_MATRIX_PRECISION), std::string(e.sharding).c_str(),
                  std::string(e.checkpointing).c_str(), e.sequence_parallel ? "sharded" : "whole",
                  matrix::name_of(mesh).c_str(), static_cast<int>(mesh.product()), what, v.off.loss, v.off.first,
                  v.off.last, v.refusal.c_str());
      std::fflush(stdout);
      wrong += !v.good;
    }
  return wrong ? 1 : 0;
}
