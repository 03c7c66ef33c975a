#!/usr/bin/env bash
# self.sh COMPILER: the checkers in this folder accept what is good and refuse what is bad, each for its own reason.
set -euo pipefail
compiler=$1
check="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# refuses SENTENCE COMMAND...: the command fails and its output contains the sentence.
refuses() {
  local sentence=$1 output
  shift
  if output=$("$@" 2>&1); then
    echo "accepted, and should be refused with '$sentence': $*"
    failures=$((failures + 1))
  elif ! grep -qF -- "$sentence" <<<"$output"; then
    echo "refused, but not with '$sentence': $*"
    echo "$output"
    failures=$((failures + 1))
  fi
}
accepts() {
  local output
  if ! output=$("$@" 2>&1); then
    echo "refused, and should be accepted: $*"
    echo "$output"
    failures=$((failures + 1))
  fi
}

# --- include_order.sh: each case adds one file to a small good tree.
tree="$work/tree"
put() { mkdir -p "$(dirname "$tree/include/weft/$1")" && cat >"$tree/include/weft/$1"; }
fresh() {
  rm -rf "$tree"
  put core/a.hpp <<<$'#pragma once\n#include <vector>\n#include <weft/core/b.hpp>'
  put core/b.hpp <<<$'#pragma once'
  put op/c.hpp <<<$'#pragma once\n#include "../core/a.hpp"\n#include "d.hpp"'
  put op/d.hpp <<<$'#pragma once\n#include "weft/core/a.hpp"\nclass [[nodiscard]] later {\n};'
  put backend/cuda/e.cuh <<<$'#pragma once\n#include <weft/core/a.hpp>'
  put core/g.inl <<<"int twice;"
  put core/h.hpp <<<$'#pragma once\n#include "g.inl"\n#include <weft/core/g.inl>\n#include WEFT_MACRO'
  put io/f.hpp <<<$'#pragma once\n#include <iostream>'
  put weft.hpp <<<$'#pragma once\n#include <weft/op/c.hpp>\n#include <weft/io/f.hpp>'
}
order() { "$check/include_order.sh" "$tree"; }
refuses_file() { # SENTENCE PATH, the file on standard input
  fresh
  put "$2"
  refuses "$1" order
}
fresh
accepts order
refuses_file 'core/ comes before op/' core/z.hpp <<<$'#pragma once\n#include <weft/op/c.hpp>'
refuses_file 'core/ comes before op/' core/z.hpp <<<$'#pragma once\n#  include "../op/c.hpp"'
refuses_file 'has to include <weft/core/requirements.hpp>' core/requirements.hpp <<<'#pragma once'
refuses_file 'a .hpp never includes a .cuh' backend/z.hpp <<<$'#pragma once\n#include <weft/backend/cuda/e.cuh>'
refuses_file 'a .hpp never includes a .cuh' weft.hpp <<<$'#pragma once\n#include <weft/backend/cuda/e.cuh>'
refuses_file 'there is no #pragma once' core/z.hpp <<<$'#include <vector>'
refuses_file 'does not exist' core/z.hpp <<<$'#pragma once\n#include <weft/core/nowhere.hpp>'
refuses_file 'core/ comes before op/' core/z.inl <<<'#include <weft/op/c.hpp>'
refuses_file 'it declares later, which include/weft/op/d.hpp defines' core/z.hpp <<<$'#pragma once\n#include "g.inl"\nclass later;'
refuses_file 'includes the umbrella' core/z.hpp <<<$'#pragma once\n#include <weft/weft.hpp>'
refuses_file 'the folder attic/ is not in the order' attic/z.hpp <<<$'#pragma once'
refuses_file 'only weft.hpp and weft.cuh' z.hpp <<<$'#pragma once'
refuses_file '<ranges> is slow to compile' core/z.hpp <<<$'#pragma once\n#include <ranges>'
refuses_file 'a backtick in a sentence' core/z.hpp <<<$'#pragma once\n#include "g.inl"\nstatic_assert(a, "say `this`");'
refuses_file 'a lambda in a pack expansion' core/z.hpp <<<$'#pragma once\n#include "g.inl"\ntemplate <int... I>\nvoid f() { (([&] { h(I); }()), ...); }'
refuses_file 'above the limit of 400' core/z.hpp < <(echo '#pragma once'; yes '//' | head -n 400)
put core/z.hpp < <(echo '#pragma once'; yes '//' | head -n 399)
accepts order
rm -rf "$tree"
mkdir -p "$tree"
refuses 'there are no headers' order

# --- compile_fail.sh
wrong() { "$check/compile_fail.sh" "$compiler" '' "$work/wrong.cpp"; }
program() { # EXPECTATION WRONG-LINE RIGHT-LINE
  printf '%s\n#ifdef WRONG\n%s\n#else\n%s\n#endif\n' "$1" "$2" "$3" >"$work/wrong.cpp"
}
program '// expect: one is not two' 'static_assert(1 == 2, "one is not two");' 'static_assert(1 == 1, "one is one");'
accepts wrong
program '// expect: one is not three' 'static_assert(1 == 2, "one is not two");' 'int x;'
refuses 'but not with: one is not three' wrong
program '// expect: one is not two' 'int y = x; static_assert(1 == 2, "one is not two");' 'int x;'
refuses 'but the first error is not: one is not two' wrong
program '// expect: one is not two' "$(printf 'static_assert(1 == 2, "one is not two");\n%s' "$(printf '#warning more\n%.0s' {1..40})")" 'int x;'
refuses 'lines, more than 40' wrong
program '// expect: one is not two' "$(printf '#if WRONG == 1\nstatic_assert(1 == 2, "one is not two");\n#elif WRONG == 2\nint x;\n#endif')" 'int x;'
refuses '-DWRONG=2)' wrong
program "$(printf '// expect: is not\n// expect 2: three is not four')" "$(printf '#if WRONG == 1\nstatic_assert(1 == 2, "one is not two");\n#elif WRONG == 2\nstatic_assert(3 == 4, "three is not four");\n#endif')" 'int x;'
accepts wrong
program "$(printf '// expect: is not\n// expect 2: one is not two')" "$(printf '#if WRONG == 1\nstatic_assert(1 == 2, "one is not two");\n#elif WRONG == 2\nstatic_assert(3 == 4, "three is not four");\n#endif')" 'int x;'
refuses 'but the first error is not: one is not two' wrong
program "$(printf '// expect: one is not two\n// shows: 1 == 2')" 'static_assert(1 == 2, "one is not two");' 'int x;'
accepts wrong
program "$(printf '// expect: one is not two\n// shows: 1 == 3')" 'static_assert(1 == 2, "one is not two");' 'int x;'
refuses "but doesn't show: 1 == 3" wrong
program '// expect: one is not two' 'int x;' 'int x;'
refuses 'the wrong version compiles' wrong
program '// expect: one is not two' 'static_assert(1 == 2, "one is not two");' 'int x = y;'
refuses 'the right version does not compile' wrong
program '// one is not two' 'static_assert(1 == 2, "one is not two");' 'int x;'
refuses 'the first line is not' wrong
printf '// expect: one is not two\nstatic_assert(1 == 2, "one is not two");\n' >"$work/wrong.cpp"
refuses "there is no '#ifdef WRONG" wrong

wrong_alone() { "$check/compile_fail.sh" --wrong "$compiler" '' "$work/wrong.cpp"; }
program '// expect: one is not two' 'static_assert(1 == 2, "one is not two");' 'int x = y;'
accepts wrong_alone
program '// expect: one is not two' 'int x;' 'int x = y;'
refuses 'the wrong version compiles' wrong_alone

# --- right_versions.sh and snippets.sh, beside a stand-in for the library.
mkdir -p "$work/repo/tests/check" "$work/repo/include/weft"
cp "$check"/{right_versions.sh,snippets.sh,run_page.sh,program.sh,blocks.awk} "$work/repo/tests/check/"
echo 'namespace weft { struct thing { int value; }; }' >"$work/repo/include/weft/weft.hpp"
right() { bash "$work/repo/tests/check/right_versions.sh" "$compiler" '' "$work/first.cpp" "$work/wrong.cpp"; }
program '// expect: no' 'nothing;' "$(printf '#include <vector>\nusing namespace weft;\nstd::vector<thing> same{{1}};\nint main() {}')"
cp "$work/wrong.cpp" "$work/first.cpp"
accepts right
program '// expect: no' 'nothing;' 'int same = nothing;'
refuses 'wrong.cpp:5:' right
program '// expect: no' 'nothing;' 'inline int number() {}'
refuses 'return' right
page() { cat >"$work/page.md"; }
snippets() { bash "$work/repo/tests/check/snippets.sh" "$compiler" '' "$work/page.md"; }
page <<'PAGE'
```cpp
#include <vector>
std::vector<thing> things{{1}};
```
```cpp
int main() {}
```
```cpp
template <class T> struct at_namespace_scope {};
```
<!-- given
thing x{2};
-->
```cpp
return x.value;
```
<!-- given namespace
template <class T> T known(T x) { return x; }
-->
```cpp
return known(3);
```
<!-- not compiled: it is a fragment -->
```cpp
for (;;
```
```cpp wrong
static_assert(sizeof(thing) == 1, "a thing is not small");
```
the compiler answers
```text
a thing is not small
```
```sh
echo not C++
```
PAGE
accepts snippets
page <<<$'```cpp\nthing x = nothing;\n```'
refuses 'page.md:1: this snippet does not compile' snippets
page <<<$'```cpp\nint main() { return nothing; }\n```'
refuses 'this snippet does not compile' snippets
page <<<$'<!-- given\nint y;\n-->\n```cpp\ny = 1;\n```\n```cpp\ny = 1;\n```'
refuses 'page.md:7: this snippet does not compile' snippets
page <<<$'```cpp wrong\nint x = 1;\n```\n```text\nno\n```'
refuses 'is called wrong, and compiles' snippets
page <<<$'```cpp wrong\nstatic_assert(1 == 2, "one is not two");\n```\n```text\none is not three\n```'
refuses 'refused, but not with: one is not three' snippets
page <<<$'```cpp wrong\nstatic_assert(1 == 2, "one is not two");\n```'
refuses 'no ```text block follows' snippets
page <<<$'```cpp wrong\nstatic_assert(1 == 2, "one is not two");\n```\n```text\n\n```'
refuses 'is empty' snippets
wrong_snippets() { bash "$work/repo/tests/check/snippets.sh" --wrong "$compiler" '' "$work/page.md"; }
page <<<$'```cpp\nthing x = nothing;\n```\n```cpp wrong\nstatic_assert(1 == 2, "one is not two");\n```\n```text\none is not two\n```'
accepts wrong_snippets
page <<<$'```cpp wrong\nint x = 1;\n```\n```text\nno\n```'
refuses 'is called wrong, and compiles' wrong_snippets
page <<<$'```cpp ignored\nint x;\n```'
refuses 'a block is ```cpp, ```cpp wrong or ```cpp throws, not ```cpp ignored' snippets
page <<<$'```cpp\nint x;'
refuses 'a ``` block is not closed' snippets

# --- run_page.sh, beside the same stand-in.
cat >"$work/repo/include/weft/weft.hpp" <<'HEADER'
#include <cstdio>
#include <stdexcept>
namespace weft {
struct context { int rank = 1; };
template <class S, class F> void launch(int, F&& f) { context ctx; f(ctx); }
}
HEADER
page() { cat >"$work/repo/page.md"; }
runs() { bash "$work/repo/tests/check/run_page.sh" "$compiler" "$work/repo/page.md"; }
printf '```sh run\ntest -e page.md && echo word > made.txt\n```\n' >"$work/repo/other.md"
page <<'PAGE'
<!-- after: other.md -->
```cpp
#include <cstdio>
using namespace weft;
int main() {
  if (!std::fopen("made.txt", "r")) return 1;
  std::puts("two  words");
}
```
```text printed
two  words
```
<!-- ranks: launch<int>(1) -->
<!-- given
int one = 1;
-->
```cpp
if (ctx.rank != one) throw std::runtime_error("no ctx");
```
```cpp
template <class T> struct at_namespace_scope { static constexpr int member = 1; };
```
```cpp wrong
nothing;
```
```text
no
```
```cpp throws
throw std::runtime_error("page.md:12: this went wrong");
```
```text
other.cpp:3: this
went wrong
```
```sh run
grep word made.txt
```
```text printed
word
```
PAGE
accepts runs
counted() { runs | grep -qxF 'page.md: 6 blocks, 4 run, 0 left out, 0 failures'; }
accepts counted
page <<<$'```cpp\nthing x = nothing;\n```'
refuses "its blocks don't compile together" runs
page <<<$'```cpp\nthrow std::runtime_error("not foreseen");\n```'
refuses 'not foreseen' runs
page <<<$'```cpp\n#include <cstdlib>\nint main() {\n  std::abort();\n}\n```'
refuses 'page.md:1: this ends with 134' runs
page <<<$'```cpp\nreturn 3;\n```'
refuses 'page.md:1: this ends with 3' runs
page <<<$'```cpp\nstd::puts("one");\n```\n```text printed\ntwo\n```'
refuses "page.md:1: this doesn't print: two" runs
page <<<$'```cpp throws\nstd::puts("one");\n```\n```text\ntwo\n```'
refuses 'this program has to throw, and ends with 0' runs
page <<<$'```cpp throws\nthrow std::runtime_error("one");\n```\n```text\ntwo\n```'
refuses "but it doesn't say what the page does" runs
page <<<$'```sh run\nfalse\n```'
refuses 'page.md:1: this ends with 1' runs
page <<<$'```sh\nfalse\n```\n```text printed\none\n```'
refuses 'nothing before this ```text printed is run' runs
mkdir -p "$work/repo/tests/docs"
page <<<$'```sh run\nfalse\n```'
echo 'page.md|false|it fails' >"$work/repo/tests/docs/not_run.txt"
accepts runs
echo 'page.md|true|it is gone' >"$work/repo/tests/docs/not_run.txt"
refuses "names a block that isn't there: true" runs

# --- lambda_names.sh, of a function whose lambdas that take an int stand first, and of one where another stands between.
if command -v g++ >/dev/null && command -v clang++ >/dev/null; then
  lambdas() { # EXPRESSION: `named` over what g++ and clang make of it
    echo "template <class F> [[gnu::noinline]] int call(F f) { return f(1); }
      inline int function() { return $1; }
      int use() { return function(); }" >"$work/lambdas.cpp"
    g++ -std=c++20 -O1 -c "$work/lambdas.cpp" -o "$work/by_gxx.o" && clang++ -std=c++20 -c "$work/lambdas.cpp" -o "$work/by_clang.o"
  }
  named() { bash "$check/lambda_names.sh" "$work/by_gxx.o" "$work/by_clang.o"; }
  one='call([](int x) { return x; })' two='call([](int x) { return x + 2; })' three='call([](int x) { return x + 3; })'
  other='call([](long x) { return int(x); })'
  lambdas "$one + $two + $three + $other"
  accepts named
  lambdas "$one + $other + $two + $three"
  refuses 'function()::{lambda(int)#3} is another lambda to g++ than to clang' named
fi

# --- peer_python.sh: what isn't there is skipped, with 77, and so by the tests that ask; all else is a failure.
peer_test() {  # CODE SENTENCE SETTING...
  local code=0 output
  output=$(env -u WEFT_TEST_ALL PYTHON=none "${@:3}" bash "$check/../tokenizers/peer_test.sh" 2>/dev/null) || code=$?
  [ "$code" = "$1" ] && grep -qF -- "$2" <<<"$output" && return
  echo "tokenizers/peer_test.sh under ${*:3} ends with $code and says: $output"
  failures=$((failures + 1))
}
mkdir -p "$work/no_list/tests/check"
cp "$check/peer_python.sh" "$work/no_list/tests/check/"
peer_test 77 'skipped: none lacks some of tokenizers' XDG_CACHE_HOME="$work/cache"
peer_test 1 "can't be made" XDG_CACHE_HOME="$check/self.sh"
peer_test 2 "can't be read" WEFT_SOURCE_DIR="$work/no_list"

echo "$failures failures"
[ "$failures" = 0 ]
