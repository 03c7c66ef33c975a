#!/usr/bin/env bash
# The generated header is all that a program needs: alone in a folder, twice in one program, without a warning, under g++
# and, once, clang. What is generated is the same as the tree: no include of weft's is left, every header is there once.
source "$WEFT_SOURCE_DIR/tests/install/common.sh"
quietly cmake --build "$WEFT_BINARY_DIR" --target single_header
mkdir -p "$out/include/weft"
cp "$WEFT_BINARY_DIR/single/weft.hpp" "$out/include/weft/"
if grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*([<"]weft/|WEFT_)' "$out/include/weft/weft.hpp"; then
  echo "FAULT: includes of the library are left"
  exit 1
fi
"$CXX" -std=c++20 -DWEFT_COMPILED -M -I "$WEFT_SOURCE_DIR/include" -x c++ "$WEFT_SOURCE_DIR/include/weft/weft.hpp" | tr ' \\' '\n\n' |
  sed -n 's|^.*/include/\(weft/.*\.hpp\)$|\1|p' | sort -u >"$out/in_tree"
sed -n 's|^// \(weft/.*\.hpp\)$|\1|p' "$out/include/weft/weft.hpp" | sort >"$out/in_header"
diff "$out/in_tree" "$out/in_header"

compilers=$CXX
case $("$CXX" --version) in *clang*) ;; *) compilers+=" $(command -v clang++ || true)" ;; esac
optimised=$([ "${WEFT_TEST_ALL:-}" = yes ] && echo -O2 || echo -O0)
for compiler in $compilers; do
  # What the second of two compilers has to say of the header it says of one unit; where all is asked for it makes the program too.
  if [ "$compiler" != "$CXX" ] && [ "${WEFT_TEST_ALL:-}" != yes ]; then
    quietly "$compiler" -std=c++20 -Wall -Wextra -Werror -I "$out/include" -include weft/weft.hpp -fsyntax-only "$here/program.cpp"
    continue
  fi
  # Included twice in a unit, by two units of a program: neither may complain.
  for unit in program second; do
    quietly "$compiler" -std=c++20 $optimised -Wall -Wextra -Werror -I "$out/include" -include weft/weft.hpp -c "$here/$unit.cpp" -o "$out/$unit.o"
  done
  quietly "$compiler" "$out/program.o" "$out/second.o" -pthread -o "$out/program"
  "$out/program"
done
