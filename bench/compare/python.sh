# shellcheck shell=bash
# Sourced by what compares with packages of Python, from the repository's root. `work` is where everything that is made lies.
work=build/compare
mkdir -p "$work"
# PYTHON: one that has the packages already.
python=${PYTHON:-"$work/venv/bin/python"}

# needs PACKAGE...: `python` has PyTorch and these, of PyPI. TORCH: what pip installs [torch].
needs() {
  "$python" -c "import torch$(printf ', %s' "$@")" 2>/dev/null && return
  [ -x "$python" ] || python3 -m venv "$work/venv"
  "$python" -m pip install -q "${TORCH:-torch}" "$@"
}
