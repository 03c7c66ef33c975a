# blocks.awk -v work=FOLDER PAGE.md: takes a page of documentation apart for snippets.sh and run_page.sh.
# Block N, counted from 1 in the page's order, becomes files FOLDER/N.*:
#   kind             right (```cpp), wrong (```cpp wrong), throws (```cpp throws) or shell (```sh run)
#   line, code       where it is opened, and what it holds
#   given, names     what `<!-- given` and `<!-- given namespace` before it hold, in a function's body and at namespace scope
#   ranks            what `<!-- ranks: LAUNCH -->` before it says, as launch<S>({.tp = 2})
#   said             the ```text block behind a wrong or throwing program
#   printed          the ```text printed block behind one that is run
#   uncompiled       there is one where `<!-- not compiled: REASON -->` stands before it
# FOLDER/count is the number of blocks. Other blocks (```sh, ```json, ```text) are left alone. Exits with 1 for a page of another form.
function put(name, text) { print text > (work "/" n "." name) }
function begin(sort) {
  n++
  put("line", FNR); put("kind", sort)
  printf "" > (work "/" n ".code")
  printf "%s", given > (work "/" n ".given"); printf "%s", names > (work "/" n ".names")
  if (ranks != "") put("ranks", ranks)
  if (skip) put("uncompiled", "")
  given = names = ranks = ""; skip = 0
  last = sort; into = "code"
}
function fault(line, text) { print FILENAME ":" line ": " text; bad = 1 }
function no_text() { if (wanted) fault(wanted, "no ```text block follows this " called " program"); wanted = 0 }
/^```/ && !inside {
  inside = 1; into = ""
  info = $0; sub(/^```+[ \t]*/, "", info); sub(/[ \t]+$/, "", info)
  if (info == "cpp") { no_text(); begin("right") }
  else if (info == "cpp wrong" || info == "cpp throws") {
    no_text(); called = substr(info, 5) == "wrong" ? "wrong" : "throwing"
    begin(substr(info, 5)); wanted = FNR
  } else if (info == "sh run") { no_text(); begin("shell") }
  else if (info ~ /^cpp/) fault(FNR, "a block is ```cpp, ```cpp wrong or ```cpp throws, not ```" info)
  else if (info == "text" && wanted) { into = "said"; wanted = 0 }
  else if (info == "text printed") {
    if (last == "right" || last == "shell") into = "printed"
    else fault(FNR, "nothing before this ```text printed is run")
  } else if (info ~ /^text ./) fault(FNR, "a block is ```text or ```text printed, not ```" info)
  next
}
/^```/ { inside = 0; into = ""; next }
inside { if (into != "") put(into, $0); next }
/^<!-- not compiled: .+-->/ { skip = 1; next }
/^<!-- ranks: .+ -->/ { ranks = $0; sub(/^<!-- ranks: /, "", ranks); sub(/ -->.*/, "", ranks); next }
/^<!-- given/ { taking = $0 ~ /namespace/ ? "names" : "given"; next }
taking && /^-->/ { taking = ""; next }
taking == "given" { given = given $0 "\n"; next }
taking == "names" { names = names $0 "\n"; next }
END {
  if (inside) { print FILENAME ": a ``` block is not closed"; bad = 1 }
  no_text()
  print n + 0 > (work "/count")
  exit bad
}
