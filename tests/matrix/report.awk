# Cells, as sweep prints them, to docs/matrix.md; and to the file `record` the memory and traffic of each. Exits with 1 if a cell is wrong or missing.
# Shown with their memory and traffic: one model and precision, on these meshes.
BEGIN {
  FS = "|"
  split("llama|bf16_mixed", shown_unit)
  shown_meshes = split("one rank|dp4|dp2 tp4|pp2 dp2 tp2", shown_mesh)
}
function kib(of, at) { return at in of ? sprintf("%.1f", of[at] / 1024) : "" }
function max(a, b) { return a + 0 > b + 0 ? a : b }
function distance(a, b) { return a > b ? a - b : b - a }
function once(list, value) { if (!((list, value) in seen)) { seen[list, value] = 1; order[list, ++count[list]] = value } }
$1 == "cells" { expected += $2; next }
$1 == "together" { next }
$1 == "tolerance" { allowed[$2] = $3 "|" $4 "|" $5; next }
NF == 17 {
  ++cells; ++verdicts[$8]
  unit = $1 "|" $2; row = $3 "|" $4 "|" $5
  once("unit", unit); once("row", row); once("precision", $2); once("mesh", $6); ranks[$6] = $7
  ++tally[row, unit, $8]; ++by_mesh[$6, $8]
  if ($8 == "same") { loss[$2] = max(loss[$2], $9); first[$2] = max(first[$2], $10); last[$2] = max(last[$2], $11) }
  if ($8 == "refused") { once("sentence", $17); ++said[$17] }
  if ($8 == "same") { peak[row, unit, $6] = $12; activations[row, unit, $6] = $13; received[row, unit, $6] = $14 }
  if ($8 == "same") {
    ++compared[unit]; compared_ranks[unit] += $7
    peaks[unit] += $12; planned_peaks[unit] += $15; receipts[unit] += $14; planned_receipts[unit] += $16
    apart[unit] = max(apart[unit], distance($12, $15)); receipts_apart[unit] = max(receipts_apart[unit], distance($14, $16))
  }
  if ($8 == "WRONG") wrong[++wrongs] = $0
}
END {
  print "# The matrix\n"
  print "Every sharding policy with every precision, every checkpointing policy, with the sequence sharded between the blocks or not, on every"
  print "mesh of up to 8 ranks, for every model: each cell trains three steps of three micro-batches through the trainer, with another number of"
  print "targets in every row, and is compared with one rank in the same precision: losses, gradient norms, and every gradient of the first and"
  print "the last step by global index, all under `launch_options.check` and `checked<threads>`, which have nothing to report. Ranks that hold the same element"
  print "must hold the same bits. It is trained again without the check, which changes no bit, and what each rank then holds and moves in its"
  print "second step is what the run's plan says, to the byte by category and to the call by operation and axis; and on every rank full"
  print "recomputation holds less of activations than selective, and less than none, of one layer in flight at most as much; selective holds less"
  print "than none from three layers in flight on ([why](policies/checkpointing.md#what-it-costs)). Cells that can't work must be"
  print "refused, and which those are is said in `tests/matrix/axes.hpp`, apart from the library. A fixed sample runs with the ordinary tests.\n"
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

  print "\n## Memory and traffic\n"
  print "Of " shown_unit[1] " in " shown_unit[2] ", in KiB: the most that a rank holds in a step, how much of activations a rank holds at most, and what a"
  print "rank receives from others in a step, the mean over ranks. Under `hybrid` the second axis is `fsdp` instead of `dp`.\n"
  printf "| sharding | checkpointing | between blocks |"
  for (m = 1; m <= shown_meshes; ++m) printf " %s: peak | activations | received |", shown_mesh[m]
  printf "\n|---|---|---|"
  for (m = 1; m <= shown_meshes; ++m) printf "---|---|---|"
  print ""
  for (r = 1; r <= count["row"]; ++r) {
    row = order["row", r]; split(row, part, "|")
    printf "| %s | %s | %s |", part[1], part[2], part[3]
    for (m = 1; m <= shown_meshes; ++m) {
      mesh = shown_mesh[m]; if (part[1] == "hybrid") sub("dp", "fsdp", mesh)
      at = row SUBSEP shown_unit[1] "|" shown_unit[2] SUBSEP mesh
      printf " %s | %s | %s |", kib(peak, at), kib(activations, at), kib(received, at)
    }
    print ""
  }

  print "\n## Plan and run\n"
  print "What the plan of each of these cells says beside what its ledger and its trace then said: the sums over cells, in MiB, of what the fullest rank"
  print "holds and of what a rank receives in a step, and the largest difference in any cell, in bytes. [matrix_cells.txt](matrix_cells.txt) has every cell's.\n"
  print "| model | precision | cells | ranks | planned to hold | held | apart | planned to receive | received | apart |\n|---|---|---|---|---|---|---|---|---|---|"
  for (u = 1; u <= count["unit"]; ++u) {
    unit = order["unit", u]; split(unit, part, "|")
    printf "| %s | %s | %d | %d | %.3f | %.3f | %d | %.3f | %.3f | %d |\n", part[1], part[2], compared[unit], compared_ranks[unit],
      planned_peaks[unit] / 1048576, peaks[unit] / 1048576, apart[unit],
      planned_receipts[unit] / 1048576, receipts[unit] / 1048576, receipts_apart[unit]
  }
  print "# Memory and traffic of every cell that trains: model, precision, sharding, checkpointing, what is between the blocks; then for each mesh, in" > record
  print "# bytes, the most that a rank holds in a step / of activations / what a rank receives from others, the mean over ranks. By tests/matrix/run.sh." > record
  for (u = 1; u <= count["unit"]; ++u)
    for (r = 1; r <= count["row"]; ++r) {
      row = order["row", r]; unit = order["unit", u]; line = unit " " row
      gsub(/\|/, " ", line); printf "%s:", line > record
      for (m = 1; m <= count["mesh"]; ++m) {
        mesh = order["mesh", m]; at = row SUBSEP unit SUBSEP mesh; name = mesh
        gsub(/ /, "-", name)
        if (at in peak) printf " %s=%d/%d/%d", name, peak[at], activations[at], received[at] > record
      }
      print "" > record
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
