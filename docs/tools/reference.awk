# reference.awk HEADER...: the public declarations of headers with what stands above them, as Markdown. It relies on the
# tree's formatting: what is public stands at column 0 outside of `namespace detail`, a member at column 2 of a class.
# Usage: awk -v folder=op -f reference.awk include/weft/op/*.hpp
function flush_head() {
  if (head != "") { printf "\n## [%s](%s%s)\n\n%s\n", name, up, path, head; head = "" }
}
function text(s) { sub(/^ *\/\/\/? ?/, "", s); return s }
# The declaration without its body, on one line.
function signature(s) {
  gsub(/[ \n]+/, " ", s); gsub(/ = \{\}/, "", s); sub(/ *\{.*$/, "", s); sub(/;.*$/, "", s); if (s !~ /\(/) sub(/ *=[^=]*$/, "", s)
  sub(/ : [a-z_:]+\(.*$/, "", s); sub(/^ +/, "", s); sub(/ +$/, "", s)
  gsub(/\[\[[^]]*\]\] */, "", s); gsub(/template </, "template <", s)
  return s
}
function title(s,   t) {
  t = s; gsub(/requires\(([^()]|\([^()]*\))*\) */, "", t); gsub(/template <([^<>]|<([^<>]|<[^<>]*>)*>)*> */, "", t); sub(/ requires .*/, "", t); sub(/\(.*/, "", t); sub(/ = .*/, "", t)
  if (match(t, /operator[^ a-zA-Z]+$/)) return substr(t, RSTART)
  sub(/ : .*/, "", t); sub(/ final$/, "", t); sub(/.*[ *&]/, "", t); return t
}
function emit(   s, t) {
  gsub(/\]\(/, "] (", doc)  # a lambda is no link
  s = signature(declaration)
  t = title(s)
  if (t == "" || t ~ /^WEFT_DETAIL/ || doc ~ /^Refused: /) { doc = ""; declaration = ""; return }
  flush_head()
  if (member) printf "- `%s`: %s\n", s, doc
  else printf "\n### `%s`\n\n```text\n%s\n```\n\n%s\n", t, s, doc
  if (!member) class = s ~ /^(template <.*> )?(class|struct) /
  if (!member) fields = s ~ /^(template <.*> )?struct / && declaration ~ /\{/
  listed[t] = 1
}
FNR == 1 {
  flush_head(); name = FILENAME; sub(/.*include\/weft\//, "", name); path = FILENAME; sub(/^.*include\//, "include/", path)
  head = ""; in_head = 1; hidden = 0; doc = ""; declaration = ""; macro = ""; access = "public"; class = 0
}
in_head && /^\/\/ / { head = head (head == "" ? "" : " ") text($0); next }
in_head && !/^\/\// { in_head = 0 }
/^namespace detail/ || /^namespace weft::(testing::)?detail/ { hidden = 1 }
/^}  \/\/ namespace (weft::(testing::)?)?detail/ { hidden = 0; next }
hidden { next }
/^(template|class|struct|inline|constexpr|enum|using|auto|void|concept)/ && !collecting && doc == "" { class = /(class|struct) / }
/^(class|struct) / { access = /^class / ? "private" : "public" }
/^ (public|protected):/ { access = "public"; next }
/^ private:/ { access = "private"; next }
/^\/\/\/ / { doc = doc (doc == "" ? "" : " ") text($0); member = 0; collecting = 1; declaration = ""; next }
/^  \/\/\/ / && access == "public" { doc = doc (doc == "" ? "" : " ") text($0); member = 1; collecting = 1; declaration = ""; next }
collecting && /^#(if|el)/ { next }
/^#define WEFT_DETAIL/ && collecting { macro = doc; doc = ""; collecting = 0; next }
/^WEFT_DETAIL_[A-Z]+\([a-z_]+\)/ && macro != "" {
  match($0, /\([a-z_]+/); names = names (names == "" ? "" : ", ") "`" substr($0, RSTART + 1, RLENGTH - 1) "`"; next
}
/^#undef/ && macro != "" { flush_head(); printf "\n### %s\n\n%s\n", names, macro; macro = names = ""; next }
/^};/ { fields = 0 }
# A struct's data member without a comment of its own above it.
fields && access == "public" && !collecting && /^  [a-zA-Z_].* [a-z_0-9]+(\[[a-z_0-9]+\])?( = .*|\{.*\})?;/ && !/^  (using|static|friend|typedef|template|return|constexpr|explicit|struct|enum)/ {
  line = $0; note = ""
  if (match(line, /; +\/\/ .*$/)) { note = substr(line, RSTART + 1); sub(/^ *\/\/\/?<? */, "", note); line = substr(line, 1, RSTART) }
  if (line !~ /\) (const )?\{/) {
    sub(/^ +/, "", line); sub(/;$/, "", line); sub(/( = )?\{\}$/, "", line)
    printf "- `%s`%s\n", line, note == "" ? "" : ": " note
  }
}
collecting {
  line = $0; sub(/ *\/\/.*$/, "", line)
  declaration = declaration "\n" line
  if (line ~ /[;{] *$/ || line ~ /[;{]/ || line ~ /^$/) { emit(); collecting = 0; doc = ""; declaration = "" }
}
END { flush_head() }
