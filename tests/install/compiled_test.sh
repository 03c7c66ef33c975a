#!/usr/bin/env bash
# What weft::compiled holds can be linked on a command line, and computes the bits of a program compiled in place. pkg-config knows
# where its sources are installed.
source "$WEFT_SOURCE_DIR/tests/install/common.sh"
flags=(-std=c++20 -Wall -Wextra -Werror -I "$WEFT_SOURCE_DIR/include")
bash "$WEFT_SOURCE_DIR/tests/check/program.sh" "$out/in_place" "$CXX" "${flags[@]}" -O2 "$here/step.cpp"
quietly "$CXX" "${flags[@]}" -O0 -DWEFT_COMPILED -c "$here/step.cpp" -o "$out/step.o"
nm -C "$out/step.o" | grep -q ' U weft::detail::operate(' || { echo "FAULT: a function that is to be linked is compiled in place"; exit 1; }
quietly "$CXX" "$out/step.o" "$WEFT_BINARY_DIR/libweft_compiled.a" -pthread -o "$out/linked"
"$out/in_place" >"$out/numbers"
[ "$(wc -l <"$out/numbers")" = 193 ] || { echo "FAULT: it printed"; cat "$out/numbers"; exit 1; }
"$out/linked" | cmp "$out/numbers" -

command -v pkg-config >/dev/null || { echo "pkg-config is not here"; exit 77; }
install_to "$out/prefix"
PKG_CONFIG_PATH=$(dirname "$(find "$out/prefix" -name weft.pc)")
export PKG_CONFIG_PATH
diff -r "$WEFT_SOURCE_DIR/include/weft/compiled" "$(pkg-config --variable=compiled weft)"
