# examples.awk: under each function of a page of the reference, a line that calls it, from a program that the tests compile
# and run: an example, a page's program or a test. The header's own test comes before others, and plain lines before those
# with a lambda. Usage: awk -f examples.awk SOURCE... page=1 PAGE
function keep(key, rank) {
  if (key in best && best[key] <= rank) return
  best[key] = rank; line[key] = text; from[key] = FILENAME
}
function note(name, rank) {
  keep(name, rank)
  if (stem != "") keep(name SUBSEP stem, rank)
}
!page && FNR == 1 {
  markdown = FILENAME ~ /\.md$/; code = !markdown
  stem = FILENAME; if (!sub(/_test\.cpp$/, "", stem)) stem = ""; sub(/.*\//, "", stem)
}
!page && markdown && /^```/ { code = $0 == "```cpp"; next }
!page {
  if (!code || $0 ~ /^ *(\/\/|#|TEST_CASE|template|struct|using)|refuse|THROW|Contains\(|^ *"/) next
  text = $0; sub(/^ +/, "", text); sub(/  \/\/ .*$/, "", text)
  if (text !~ /;$/ || length(text) > 118) next
  rank = (text ~ /\[.*\]\(/) * 2 + (stem != "")
  if (stem ~ /elementwise_gradients/ && match(text, /[a-z_)] [-+*\/] [a-z_(]/)) note("operator" substr(text, RSTART + 2, 1), rank)
  if (stem ~ /elementwise_gradients/ && match(text, /[a-z_)] [-+*\/] [0-9]/)) note("number operator" substr(text, RSTART + 2, 1), rank)
  if (stem ~ /elementwise_gradients/ && match(text, /[0-9] [-+*\/] [a-z_(]/)) note("first number operator" substr(text, RSTART + 2, 1), rank)
  rest = text
  while (match(rest, /[a-zA-Z_:][a-zA-Z_0-9:]*(<[^;=()]*>)?\(/)) {
    before = RSTART > 1 ? substr(rest, RSTART - 1, 1) : " "
    name = substr(rest, RSTART, RLENGTH - 1); skip = length(name); sub(/<.*/, "", name); sub(/^(weft::|weft_test::)?(testing::)?/, "", name)
    if (before !~ /[.>~]/ && name !~ /:/) note(name, rank)
    rest = substr(rest, RSTART + skip)
  }
  next
}
function example(before, after,   name, at) {
  name = (wanted SUBSEP header) in line ? wanted SUBSEP header : wanted; wanted = ""
  if (!(name in line)) return
  at = from[name]; sub(/^\.\//, "", at)
  printf "%sExample, of [%s](../../%s): `%s`\n%s", before, at, at, line[name], after
}
/^##/ && wanted != "" { example("", "\n") }
/^## \[/ { header = $2; sub(/\.hpp\].*/, "", header); sub(/.*\//, "", header) }
/^### `/ { wanted = $2; gsub(/[`,]/, "", wanted); sub(/^.*::/, "", wanted) }
signature {
  if ($0 !~ /\(/ || $0 ~ /concept /) wanted = ""
  else if (wanted ~ /^operator/ && $0 ~ /double/) wanted = ($0 ~ /\(double/ ? "first " : "") "number " wanted
  signature = 0
}
/^```text/ { signature = 1 }
{ print }
END { if (wanted != "") example("\n", "") }
