# To be sourced. `need WHAT PACKAGE` notes PACKAGE if the command, or the file, WHAT is missing; `install_missing`
# then installs all that was noted, with apt-get, as root or through sudo; it touches nothing if nothing is missing.
missing=()
need() {
  case $1 in
    /*) [ -e "$1" ] || missing+=("$2") ;;
    *) command -v "$1" >/dev/null 2>&1 || missing+=("$2") ;;
  esac
}
install_missing() {
  [ ${#missing[@]} = 0 ] && return 0
  local sudo='' try
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "Missing here, and there is no apt-get to install it with (Debian's package names): ${missing[*]}" >&2
    return 1
  fi
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
      echo "Missing here: ${missing[*]}. Install it, or run this as root or with sudo." >&2
      return 1
    fi
    sudo='sudo'
  fi
  echo "== installing ${missing[*]}"
  for try in 1 2 3; do
    if $sudo apt-get update -q &&
      $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"; then
      return 0
    fi
    echo "apt-get failed (try $try of 3)" >&2
    sleep 5
  done >/tmp/weft-apt-$$.log 2>&1
  tail -n 40 /tmp/weft-apt-$$.log >&2
  echo "Could not install ${missing[*]}." >&2
  return 1
}
