# To be sourced. `need WHAT PACKAGE...` notes the packages if the command, or the file, WHAT is missing; `install_missing`
# then installs all that was noted, with apt-get, as root or through sudo; it touches nothing if nothing is missing.
# `want` is a need that may go unmet: if it can't be installed, that is said, and its tests are skipped.
missing=() wanted=()
is_here() { case $1 in /*) [ -e "$1" ] ;; *) command -v "$1" >/dev/null 2>&1 ;; esac; }
need() { is_here "$1" || missing+=("${@:2}"); }
want() { is_here "$1" || wanted+=("${@:2}"); }
install_missing() {
  if [ ${#missing[@]} != 0 ]; then install_now "${missing[@]}" || return 1; fi
  if [ ${#wanted[@]} != 0 ]; then
    install_now "${wanted[@]}" || echo "Tests that need ${wanted[*]} are skipped." >&2
  fi
  return 0
}
install_now() {
  local sudo='' try log
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "Missing here, and there is no apt-get to install it with (Debian's package names): $*" >&2
    return 1
  fi
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
      echo "Missing here: $*. Install it, or run this as root or with sudo." >&2
      return 1
    fi
    sudo='sudo'
  fi
  echo "== installing $*"
  log=$(mktemp)
  for try in 1 2 3; do
    if $sudo apt-get update -q &&
      $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"; then
      rm -f "$log"
      return 0
    fi
    echo "apt-get failed (try $try of 3)" >&2
    sleep 5
  done >"$log" 2>&1
  tail -n 40 "$log" >&2
  rm -f "$log"
  echo "Could not install $*." >&2
  return 1
}
