#!/usr/bin/env bash
# run_page.sh COMPILER PAGE.md: what a page of documentation shows does what the page says when it is run.
# All ```cpp blocks that aren't wrong become one program, each in a namespace of its own; then, in the page's order and in a
# scratch folder that begins with links to this repository's files:
#   - a ```sh run block has to end with 0;
#   - a ```cpp block is run in a process of its own and must not throw, abort or last longer than two minutes; the number behind
#     `.steps = ` or `.steps = done + ` is taken to be 2, unless a ```text printed block follows;
#   - each line of a ```text printed block has to be a line of what the block before it printed;
#   - a ```cpp throws block has to end with a weft::failure, or another std::exception, that says what the ```text block behind it
#     does; line breaks and the places of a source (page.md:12) don't count.
# `<!-- after: OTHER.md -->` on a page: OTHER's ```sh run blocks come first. A block of declarations alone has nothing to run, but
# its static_asserts. Blocks that can't be run stand in tests/docs/not_run.txt, as PAGE|FIRST LINE|REASON.
# blocks.awk and snippets.sh say what else a page may hold. COMPILER: as of program.sh. PAGES: a folder in which the program is compiled,
# at the same place in every checkout, so that ccache finds it.
set -euo pipefail
compiler=$1 page=$(realpath "$2")
here="$(realpath "$(dirname "${BASH_SOURCE[0]}")")"
root="$(realpath "$here/../..")"
short=$(realpath --relative-to="$root" "$page")
work=$(mktemp -d ${PAGES:+"$PAGES/page.XXXXXX"})
trap 'rm -rf "$work"' EXIT
mkdir "$work/blocks" "$work/scratch" "$work/before"
awk -v work="$work/blocks" -f "$here/blocks.awk" "$page"
count=$(cat "$work/blocks/count")
for name in "$root"/*; do ln -s "$name" "$work/scratch/"; done
rm -f "$work/scratch/build" "$work/scratch/runs"
failures=0
fault() { echo "$short:$1"; failures=$((failures + 1)); }

# Which blocks are left out, and why.
declare -A left_out=()
while IFS='|' read -r where first reason; do
  [ "$where" = "$short" ] || continue
  found=no
  for ((i = 1; i <= count; ++i)); do
    [ "$(head -n 1 "$work/blocks/$i.code")" = "$first" ] && { left_out[$i]=$reason found=yes; break; }
  done
  [ $found = yes ] || fault "0: tests/docs/not_run.txt names a block that isn't there: $first"
done < <(cat "$here/../docs/not_run.txt" 2>/dev/null || true)

# --- One program of all blocks. What a block has before its function, and the function's last lines, depend on its form.
declare -A runs=()
source="$work/page.cpp"
{
  for ((i = 1; i <= count; ++i)); do grep -h '^#include' "$work/blocks/$i.code" || true; done | sort -u
  printf '#include <%s>\n' cstdio cstdlib exception type_traits weft/weft.hpp
  for ((i = 1; i <= count; ++i)); do
    block="$work/blocks/$i" kind=$(cat "$work/blocks/$i.kind")
    [ "$kind" = right ] || [ "$kind" = throws ] || continue
    [ -e "$block.uncompiled" ] || [ -n "${left_out[$i]:-}" ] && continue
    echo "namespace block_$i {"
    echo 'using namespace weft;'
    cat "$block.names"
    form=body
    if grep -q 'int main(' "$block.code"; then
      form=program
    elif grep -qE '^(struct|class|template|namespace|inline|static_assert)' "$block.code" && [ ! -s "$block.given" ] &&
      ! grep -qE '^ *(auto|launch)' "$block.code"; then
      form=declarations
    fi
    [ $form = body ] && echo 'inline auto program() {'
    [ $form = body ] && [ -e "$block.ranks" ] && sed 's/)$/, [\&](context\& ctx) {/' "$block.ranks"
    [ $form = declarations ] || cat "$block.given"
    echo "#line $(($(cat "$block.line") + 1)) \"$short\""
    # A function other than main has to say what it returns, also at its end, which is the block's.
    sed -E -e '/^#include/s/.*//' -e 's/^int main\(/int program(/' -e "$([ $form = program ] && echo '$s/^\}$/return 0;}/')" "$block.code" |
      if [ -e "$block.printed" ]; then cat; else sed -E 's/\.steps = (done \+ )?[0-9]+/.steps = \12/g'; fi
    [ $form = body ] && [ -e "$block.ranks" ] && echo '});'
    [ $form = body ] && echo '}'
    echo '}'
    [ $form = declarations ] || echo "$i" >>"$work/runs"
  done
  echo '#line 1 "run_page.sh"'
  cat <<'END'
template <class F>
int run(F f) {
  if constexpr (std::is_convertible_v<std::invoke_result_t<F>, int>) return static_cast<int>(f());
  f();
  return 0;
}
int main(int, char** argv) {
  try {
    switch (std::atoi(argv[1])) {
END
  for i in $(cat "$work/runs" 2>/dev/null); do echo "      case $i: return run([] { return block_$i::program(); });"; done
  cat <<'END'
    }
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s\n", e.what());
    return 33;
  }
  return 99;
}
END
} >"$source"
for i in $(cat "$work/runs" 2>/dev/null); do runs[$i]=yes; done

if grep -qE '^namespace block_' "$source"; then
  if ! (cd "$work" && bash "$here/program.sh" page "$compiler" -std=c++20 -w -I "$root/include" page.cpp) >"$work/compiled" 2>&1; then
    echo "$short: its blocks don't compile together:"
    head -n 60 "$work/compiled"
    exit 1
  fi
fi

# shell FILE: runs a block of commands in the scratch folder.
shell() { (cd "$work/scratch" && timeout 300 bash -euo pipefail "$1" </dev/null); }
# collapse: text without line breaks and the places of sources.
collapse() { tr -s ' \n' '  ' | sed -E 's/[A-Za-z_./-]+\.(cpp|md):[0-9]+/SOURCE/g; s/^ //; s/ $//'; }

while read -r other; do
  awk -v work="$work/before" -f "$here/blocks.awk" "$(dirname "$page")/$other"
  for kind in $(grep -lx shell "$work/before"/*.kind | sort -V); do
    shell "${kind%.kind}.code" >"$work/out" 2>&1 || { fault "0: a command of $other fails:"; head -n 20 "$work/out"; }
  done
done < <(sed -n 's/^<!-- after: \(.*\) -->$/\1/p' "$page")

ran=0
for ((i = 1; i <= count; ++i)); do
  block="$work/blocks/$i" kind=$(cat "$work/blocks/$i.kind") where=$(cat "$work/blocks/$i.line")
  [ -n "${left_out[$i]:-}" ] && continue
  rc=0
  if [ "$kind" = shell ]; then
    shell "$block.code" >"$work/out" 2>"$work/err" || rc=$?
  elif [ -n "${runs[$i]:-}" ]; then
    (cd "$work/scratch" && timeout 120 "$work/page" "$i" </dev/null) >"$work/out" 2>"$work/err" || rc=$?
  else
    continue
  fi
  ran=$((ran + 1))
  if [ "$kind" = throws ]; then
    if [ $rc != 33 ]; then
      fault "$where: this program has to throw, and ends with $rc"
    elif ! grep -qF -- "$(collapse <"$block.said")" <(collapse <"$work/err"); then
      fault "$where: this program throws, but it doesn't say what the page does:"
      cat "$work/err"
    fi
  elif [ $rc != 0 ]; then
    fault "$where: this ends with $rc:"
    tail -n 20 "$work/out" "$work/err"
  elif [ -e "$block.printed" ]; then
    while IFS= read -r line; do
      [ -z "$line" ] || grep -qxF -- "$line" "$work/out" || {
        fault "$where: this doesn't print: $line"
        head -n 40 "$work/out"
      }
    done <"$block.printed"
  fi
done
echo "$short: $count blocks, $ran run, ${#left_out[@]} left out, $failures failures"
[ "$failures" = 0 ]
