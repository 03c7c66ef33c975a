#!/usr/bin/env bash
# text_sum.sh FILE COMPILER FLAGS...: writes the hash of what the compiler would compile, its version and its flags, without the
# folder of this checkout, to FILE.
set -euo pipefail
file=$1 root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
shift
{ "$1" --version; echo "${*//"$root"/}"; "$@" -E -P; } | sed "s|$root||g" | sha256sum >"$file"
