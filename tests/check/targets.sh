#!/usr/bin/env bash
# targets.sh BUILD_FOLDER 'FOLDER|FOLDER...': the targets that tests of these folders need. Doctest programs are built one a
# folder; what is left runs programs of any target, so all are named.
set -euo pipefail
known=$(ninja -C "$1" -t targets all 2>/dev/null | sed -n 's/^\([A-Za-z_0-9+]*\): phony.*/\1/p')
targets=()
for folder in ${2//|/ }; do
  case $folder in
    compile_fail | snippets) found=$(grep -xE 'precompiled_(clang|g)__' <<<"$known" || true) ;;
    pages) found=$(grep -x weft_programs <<<"$known" || true) ;;
    header) found=$(grep -xE 'headers_twice|cuda_headers' <<<"$known" || true) ;;
    *) found=$(grep -xE "test_$folder(_cuda)?" <<<"$known" || true) ;;
  esac
  [ -n "$found" ] || found=all
  targets+=($found)
done
echo "${targets[@]}"
