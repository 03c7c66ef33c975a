#!/usr/bin/env bash
# What weft::compiled holds can be linked on a command line, and computes the bits of a program compiled in place. pkg-config knows
# where its sources are installed, and CMake builds them.
source "$WEFT_SOURCE_DIR/tests/install/common.sh"
flags=(-std=c++20 -Wall -Wextra -Werror -I "$WEFT_SOURCE_DIR/include")
bash "$WEFT_SOURCE_DIR/tests/check/program.sh" "$out/in_place" "$CXX" "${flags[@]}" -O2 "$here/step.cpp"
quietly "$CXX" "${flags[@]}" -O0 -DWEFT_COMPILED -c "$here/step.cpp" -o "$out/step.o"
nm -C "$out/step.o" >"$out/names"
for linked in 'operate(' 'contraction<weft::cpu_backend, float, weft::detail::exact_operands>::forward('; do
  grep -qF " U weft::detail::$linked" "$out/names" || { echo "FAULT: $linked...) is to be linked, and is compiled in place"; exit 1; }
done
quietly "$CXX" "$out/step.o" "$WEFT_BINARY_DIR/libweft_compiled.a" -pthread -o "$out/linked"
"$out/in_place" >"$out/numbers"
[ "$(wc -l <"$out/numbers")" = 193 ] || { echo "FAULT: it printed"; cat "$out/numbers"; exit 1; }
"$out/linked" | cmp "$out/numbers" -

install_to "$out/prefix"
quietly cmake -S "$here/compiled" -B "$out/build" -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_PREFIX_PATH="$out/prefix"
commands="$out/build/compile_commands.json"
grep -q -e '-DWEFT_COMPILED .*/step\.cpp' "$commands" || { echo "FAULT: what links weft::compiled isn't told so"; exit 1; }
sources="$WEFT_SOURCE_DIR/include/weft/compiled"
[ "$(grep -c '"file".*/weft/compiled/' "$commands")" = "$(find "$sources" -name "*.cpp" | wc -l)" ] || { echo "FAULT: not all of it is built"; exit 1; }

command -v pkg-config >/dev/null || { echo "pkg-config is not here"; exit 77; }
PKG_CONFIG_PATH=$(dirname "$(find "$out/prefix" -name weft.pc)")
export PKG_CONFIG_PATH
diff -r "$sources" "$(pkg-config --variable=compiled weft)"
