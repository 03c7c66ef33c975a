# To be sourced by the tests that have transformers read what Weft wrote: `here` is this checkout, `python` has the packages of packages.txt,
# and `work` is an empty folder that goes away. Exits with 77 where there is no such Python, and with 1 where that can't be found out.
set -euo pipefail
here="${WEFT_SOURCE_DIR:-$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../..")}"
python=$(bash "$here/tests/check/peer_python.sh" "$here/tests/pretrained/peer/packages.txt" --extra-index-url https://download.pytorch.org/whl/cpu \
  --retries 1 --timeout 15) || { status=$?; echo "$python"; exit $status; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HF_HUB_OFFLINE=1
# asked SCRIPT ARGUMENT...: what a script of this folder says on stderr is shown where it fails.
asked() { "$python" "$here/tests/pretrained/peer/$1" "${@:2}" 2>"$work/said" || { cat "$work/said"; exit 1; }; }
