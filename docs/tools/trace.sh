#!/usr/bin/env bash
# trace.sh summary TRACE.json: how long each rank computed and waited in a run's trace, and what it waited for.
# trace.sh picture TRACE.json: the same as an SVG with its own background, so that it is readable on a light and on a dark page:
# a row for what each rank computed, with its waiting, and one for each axis' collectives.
# TRACE.json is as write_trace makes it, one event a line.
set -euo pipefail
mode=${1:-} file=${2:-}
case $mode in summary | picture) ;; *) echo "usage: trace.sh summary|picture TRACE.json" >&2; exit 2 ;; esac
[ -s "$file" ] || { echo "trace.sh: there is no trace in $file" >&2; exit 1; }
exec awk -v mode="$mode" '
  # The value of a key, the first of its name on the line.
  function number(key,   at) {
    at = index($0, "\"" key "\":")
    return at ? substr($0, at + length(key) + 3) + 0 : 0
  }
  function text(key,   at, s) {
    at = index($0, "\"" key "\":\"")
    if (!at) return ""
    s = substr($0, at + length(key) + 4)
    return substr(s, 1, index(s, "\"") - 1)
  }
  /"ph":"M"/ {
    name = substr($0, index($0, "\"args\""))
    sub(/^"args":\{"name":"/, "", name); sub(/".*/, "", name)
    if (/"process_name"/) { rank[number("pid")] = name; ranks = ranks > number("pid") + 1 ? ranks : number("pid") + 1 }
    else track[number("pid"), number("tid")] = name
  }
  /"ph":"X"/ {
    n++
    pid[n] = number("pid"); tid[n] = number("tid"); name_of[n] = text("name"); begin[n] = number("ts"); dur[n] = number("dur")
    wire[n] = number("wire_bytes")
    if (n == 1 || begin[n] < first) first = begin[n]
    if (begin[n] + dur[n] > last) last = begin[n] + dur[n]
  }
  function kind(s) {
    return s ~ /^wait for / ? "wait" : s ~ /^forward / ? "forward" : s ~ /^backward / || s ~ /^weight gradients / ? "backward" : "other"
  }
  # "wait for all_gather weights of layer 3" -> "all_gather weights": numbers and what follows "of" differ from unit to unit.
  function sort_of(s) { sub(/^wait for /, "", s); sub(/ of .*/, "", s); sub(/ [0-9]+$/, "", s); return s }
  function colour(k) { return k == "wait" ? "#d1495b" : k == "forward" ? "#2f6fb5" : k == "backward" ? "#3d8b5f" : "#8a8f98" }
  function xml(s) { gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s); gsub(/>/, "\\&gt;", s); return s }
  function box(x, y, w, h, fill, about) {
    printf "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"><title>%s</title></rect>\n", x, y, w < 0.6 ? 0.6 : w, h, fill, xml(about)
  }
  function write(x, y, s, extra) { printf "<text x=\"%.1f\" y=\"%d\"%s>%s</text>\n", x, y, extra, xml(s) }
  END {
    if (!n) { print "trace.sh: the trace holds no event" > "/dev/stderr"; exit 1 }
    for (p = 0; p < ranks; ++p) {
      for (i = 1; i <= n; ++i) {
        if (pid[i] != p) continue
        if (tid[i] == 0 && kind(name_of[i]) == "wait") {
          waited[p] += dur[i]; s = sort_of(name_of[i]); waits[s]++; wait_time[s] += dur[i]
        } else if (tid[i] != 0) {
          s = sort_of(name_of[i]); calls[s]++; time[s] += dur[i]; received[s] += wire[i]
        }
      }
    }
    if (mode == "summary") {
      printf "%.1f ms\n", (last - first) / 1000
      for (p = 0; p < ranks; ++p)
        printf "%s: waited %.1f ms, %.0f %%\n", rank[p], waited[p] / 1000, 100 * waited[p] / (last - first)
      for (s in calls) order[++kinds] = s
      for (i = 2; i <= kinds; ++i)
        for (j = i; j > 1 && time[order[j]] > time[order[j - 1]]; --j) { s = order[j]; order[j] = order[j - 1]; order[j - 1] = s }
      printf "%-42s %6s %12s %12s %14s\n", "all ranks", "calls", "under way", "waited for", "received"
      for (i = 1; i <= kinds; ++i)
        printf "%-42s %6d %9.1f ms %9.1f ms %10.0f KiB\n", order[i], calls[order[i]], time[order[i]] / 1000, wait_time[order[i]] / 1000, received[order[i]] / 1024
      exit
    }
    left = 150; width = 960; plot = width - left - 20; high = 18; top = 34
    # Rows: tracks of each rank, in the order of their numbers.
    for (p = 0; p < ranks; ++p) {
      rows = 0
      for (key in track) { split(key, part, SUBSEP); if (part[1] == p) ids[++rows] = part[2] + 0 }
      for (i = 2; i <= rows; ++i) for (j = i; j > 1 && ids[j] < ids[j - 1]; --j) { s = ids[j]; ids[j] = ids[j - 1]; ids[j - 1] = s }
      for (i = 1; i <= rows; ++i) { row[p, ids[i]] = ++lines; label[lines] = track[p, ids[i]]; owner[lines] = p; opens[lines] = i == 1 }
    }
    y = top
    for (l = 1; l <= lines; ++l) { if (opens[l]) y += 20; place[l] = y; y += high + 4 }
    height = y + 44
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#24292f\">\n", width, height
    printf "<rect width=\"%d\" height=\"%d\" rx=\"6\" fill=\"#f6f8fa\"/>\n", width, height
    legend = left
    split("forward backward wait other collective", keys, " ")
    for (i = 1; i <= 5; ++i) {
      box(legend, 14, 12, 12, keys[i] == "collective" ? "#c99a2e" : colour(keys[i]), keys[i])
      write(legend + 17, 24, keys[i] == "wait" ? "waiting" : keys[i], ""); legend += 100
    }
    scale = plot / (last - first)
    for (l = 1; l <= lines; ++l) {
      if (opens[l]) write(10, place[l] - 6, rank[owner[l]], " font-weight=\"bold\"")
      write(10, place[l] + 13, label[l], "")
      printf "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#e7eaee\"/>\n", left, place[l], plot, high
    }
    for (pass = 0; pass < 2; ++pass)  # waiting is drawn over what it interrupts
      for (i = 1; i <= n; ++i) {
        k = tid[i] == 0 ? kind(name_of[i]) : "collective"
        if ((k == "wait") != pass) continue
        box(left + (begin[i] - first) * scale, place[row[pid[i], tid[i]]], dur[i] * scale - 0.4, high,
            k == "collective" ? "#c99a2e" : colour(k), sprintf("%s, %.2f ms", name_of[i], dur[i] / 1000))
        s = name_of[i]
        sub(/^(forward|backward) /, "", s)
        if ((k == "forward" || k == "backward") && dur[i] * scale > 7 * length(s))
          write(left + (begin[i] + dur[i] / 2 - first) * scale, place[row[pid[i], tid[i]]] + 13, s, " fill=\"#ffffff\" font-size=\"10\" text-anchor=\"middle\"")
      }
    step = 1
    while ((last - first) / 1000 / step > 10) step = step * (step ~ /^2/ ? 2.5 : 2)
    for (t = 0; t * 1000 <= last - first; t += step) {
      x = left + t * 1000 * scale
      printf "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#24292f\"/>\n", x, height - 36, x, height - 30
      write(x, height - 16, t (t == 0 ? " ms" : ""), " text-anchor=\"middle\"")
    }
    print "</svg>"
  }' "$file"
