# Cells, as sweep prints them, to docs/matrix.md. Exits with 1 if a cell is wrong or missing.
BEGIN { FS = "|" }
function max(a, b) { return a + 0 > b + 0 ? a : b }
function once(list, value) { if (!((list, value) in seen)) { seen[list, value] = 1; order[list, ++count[list]] = value } }
$1 == "cells" { expected += $2; next }
$1 == "tolerance" { allowed[$2] = $3 "|" $4 "|" $5; next }
NF == 12 {
  ++cells; ++verdicts[$8]
  unit = $1 "|" $2; row = $3 "|" $4 "|" $5
  once("unit", unit); once("row", row); once("precision", $2); once("mesh", $6); ranks[$6] = $7
  ++tally[row, unit, $8]; ++by_mesh[$6, $8]
  if ($8 == "same") { loss[$2] = max(loss[$2], $9); first[$2] = max(first[$2], $10); last[$2] = max(last[$2], $11) }
  if ($8 == "refused") { once("sentence", $12); ++said[$12] }
  if ($8 == "WRONG") wrong[++wrongs] = $0
}
END {
  print "# The matrix\n"
  print "Every sharding policy with every precision, every checkpointing policy, with the sequence sharded between the blocks or not, on every"
  print "mesh of up to 8 ranks, for every model: each cell trains three steps of three micro-batches through the trainer, with another number of"
  print "targets in every row, and is compared with one rank in the same precision: losses, gradient norms, and every gradient of the first and"
  print "the last step by global index. Ranks that hold the same element must hold the same bits. Cells that can't work must be refused, and"
  print "which those are is said in `tests/matrix/axes.hpp`, apart from the library. A fixed sample runs with the ordinary tests.\n"
  print "This page is made by a command; `JOBS` programs run at a time:\n"
  print "```sh\nJOBS=2 tests/matrix/run.sh\n```\n"
  printf "**%d cells: %d equal one rank, %d are refused as they have to be, %d are wrong, %d are missing** (%s, %s).\n\n", cells,
    verdicts["same"], verdicts["refused"], wrongs, expected - cells, date, compiler
  if (wrongs) { print "## Wrong\n"; for (i = 1; i <= wrongs; ++i) print "- `" wrong[i] "`"; print "" }

  print "## How far from one rank\n"
  print "The worst of all cells, and what is tolerated; the reasons stand beside the tolerances in `tests/matrix/axes.hpp`. Losses and norms are"
  print "relative (norms over 20); a gradient is relative to the largest element of its parameter. `fp16_from_above` is `fp16_mixed` under a loss"
  print "scale that overflows at first, so that every cell skips steps until it fits, as many as one rank does.\n"
  print "| precision | loss | tolerated | gradients, step 1 | tolerated | gradients, step 3 | tolerated |\n|---|---|---|---|---|---|---|"
  for (i = 1; i <= count["precision"]; ++i) {
    p = order["precision", i]; split(allowed[p], t, "|")
    printf "| %s | %s | %s | %s | %s | %s | %s |\n", p, loss[p], t[1], first[p], t[2], last[p], t[3]
  }

  print "\n## Cells\n"
  print "How many meshes equal one rank, and after a `+` how many are refused.\n"
  printf "| sharding | checkpointing | between blocks |"
  for (u = 1; u <= count["unit"]; ++u) { split(order["unit", u], part, "|"); printf " %s %s |", part[1], part[2] }
  printf "\n|---|---|---|"
  for (u = 1; u <= count["unit"]; ++u) printf "---|"
  print ""
  for (r = 1; r <= count["row"]; ++r) {
    row = order["row", r]; split(row, part, "|")
    printf "| %s | %s | %s |", part[1], part[2], part[3]
    for (u = 1; u <= count["unit"]; ++u) {
      unit = order["unit", u]
      printf " %d + %d%s |", tally[row, unit, "same"], tally[row, unit, "refused"], tally[row, unit, "WRONG"] ? ", " tally[row, unit, "WRONG"] " WRONG" : ""
    }
    print ""
  }

  print "\n## Meshes\n\n| ranks | meshes, and the cells on each that equal one rank |\n|---|---|"
  for (n = 1; n <= 8; ++n) {
    printf "| %d |", n
    for (m = 1; m <= count["mesh"]; ++m) {
      mesh = order["mesh", m]
      if (ranks[mesh] == n) printf " %s: %d%s;", mesh, by_mesh[mesh, "same"], by_mesh[mesh, "refused"] ? " (" by_mesh[mesh, "refused"] " refused)" : ""
    }
    print " |"
  }

  print "\n## Refused when the run begins\n\n| cells | the sentence |\n|---|---|"
  for (s = 1; s <= count["sentence"]; ++s) printf "| %d | %s |\n", said[order["sentence", s]], order["sentence", s]
  print "\n## Refused by the compiler\n\n| the program says | the compiler says |\n|---|---|"
  while ((getline line < refused) > 0) {
    split(line, part, "|")
    if (part[2] == "") { wrongs++; part[2] = "NOTHING" }
    printf "| `%s` | %s |\n", part[1], part[2]
  }
  exit wrongs > 0 || cells != expected || cells == 0
}
