#!/usr/bin/env bash
# Installed, moved, and found by pkg-config alone.
command -v pkg-config >/dev/null && command -v make >/dev/null || { echo "pkg-config or make is not here"; exit 77; }
source "$WEFT_SOURCE_DIR/tests/install/common.sh"
install_to "$out/prefix"
PKG_CONFIG_PATH=$(dirname "$(find "$out/prefix" -name weft.pc)")
export PKG_CONFIG_PATH
pkg-config --exact-version="$(sed -n 's/^project(weft VERSION \([0-9.]*\).*/\1/p' "$WEFT_SOURCE_DIR/CMakeLists.txt")" weft
quietly make -C "$here/pkg_config" OUT="$out" CXX="$CXX"
"$out/program"
