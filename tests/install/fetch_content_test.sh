#!/usr/bin/env bash
# FetchContent unpacks an archive of the source and builds against it.
source "$WEFT_SOURCE_DIR/tests/install/common.sh"
mkdir "$out/weft"
cp -r "$WEFT_SOURCE_DIR"/{CMakeLists.txt,cmake,include} "$out/weft/"
tar -C "$out" -czf "$out/weft.tar.gz" weft
consume fetch_content -DWEFT_ARCHIVE="$out/weft.tar.gz"
