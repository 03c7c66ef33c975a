#!/usr/bin/env bash
# The option WEFT_CBLAS: products by a CBLAS are those of the library's kernels, and take none of their scratch. Skipped where there is
# no cblas.h; where there is none to link with, compiled only.
set -euo pipefail
root="${WEFT_SOURCE_DIR:-$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")}"
compiler=${CXX:-g++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo '#include <cblas.h>' | "$compiler" -fsyntax-only -x c++ - 2>/dev/null || { echo "no cblas.h: skipped"; exit 0; }
cat >"$work/program.cpp" <<'END'
#include <cmath>
#include <cstdio>
#include <vector>
#include <weft/backend/cpu.hpp>
int main() {
  constexpr std::int64_t m = 70, n = 50, k = 90;
  std::vector<float> a(m * k), b(k * n), c(m * n);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = float(i % 7) - 3;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = float(i % 5) - 2;
  weft::cpu::team cores(2);
  const auto said = weft::cpu::matmul_scratch(2, {1, m, n, k}, a.data(), {k, 1, 0}, b.data(), {n, 1, 0}, c.data(), {n, 1, 0}, false);
  weft::cpu::matmul(cores, {1, m, n, k}, a.data(), {k, 1, 0}, b.data(), {n, 1, 0}, c.data(), {n, 1, 0}, false);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = 0;  // of whole numbers: exact
      for (std::int64_t l = 0; l < k; ++l) sum += a[std::size_t(i * k + l)] * b[std::size_t(l * n + j)];
      if (c[std::size_t(i * n + j)] != sum) return std::puts("another product"), 1;
    }
  if (said.kept(2) != 0 || cores.scratch_bytes() != 0) return std::puts("scratch was taken"), 1;
}
END
"$compiler" -std=c++20 -O1 -Wall -Wextra -DWEFT_CPU_CBLAS -I"$root/include" -c "$work/program.cpp" -o "$work/program.o"
for library in openblas cblas blas; do
  "$compiler" "$work/program.o" -l$library -pthread -o "$work/program" 2>/dev/null || continue
  OPENBLAS_NUM_THREADS=1 "$work/program"
  echo "products by $library"
  exit 0
done
echo "no CBLAS to link with: compiled only"
