#!/usr/bin/env bash
# generate.sh [--check] [policies] [support] [reference]: writes the generated parts of the documentation, or, with --check, fails where a
# page does not say what the code says.
#   policies  docs/policies/*.md, by policy_tables.cpp and checkpointing_tables.cpp
#   support   docs/support.md, by support.sh
#   reference docs/reference/*.md, whole pages, by reference.sh
# A part of a page stands between the lines `<!-- generated: NAME -->` and `<!-- end of generated -->`. The programs print each
# part after a line `== NAME`. Every part has to be wanted by one page, and every page's part has to be printed.
# CXX: the compiler (g++).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export CXX="${CXX:-g++}"
check=no
if [ "${1:-}" = --check ]; then check=yes; shift; fi
[ $# -gt 0 ] || set -- policies support reference
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

stale=0
for what; do
  : >"$work/parts"
  : >"$work/used"
  case $what in
    reference)
      bash docs/tools/reference.sh "$work/reference"
      if [ $check = yes ]; then
        diff -ru docs/reference "$work/reference" || stale=1
      else
        rm -rf docs/reference
        cp -r "$work/reference" docs/reference
        echo "wrote docs/reference"
      fi
      continue
      ;;
    policies)
      pages=(docs/policies/*.md)
      for program in policy_tables checkpointing_tables; do
        bash tests/check/program.sh "$work/$program" quick -Iinclude docs/tools/$program.cpp
        "$work/$program" >>"$work/parts"
      done
      ;;
    support)
      pages=(docs/support.md)
      bash docs/tools/support.sh >"$work/parts"
      ;;
    *) echo "generate.sh: there is no part called $what; it is policies, support or reference" >&2; exit 2 ;;
  esac
  for page in "${pages[@]}"; do
    awk -v parts="$work/parts" -v used="$work/used" '
      BEGIN { while ((getline line < parts) > 0) if (line ~ /^== /) name = substr(line, 4); else text[name] = text[name] line "\n" }
      !inside { print }
      /^<!-- generated: .* -->$/ {
        name = $0; sub(/^<!-- generated: /, "", name); sub(/ -->$/, "", name); inside = 1
        if (!(name in text)) { print FILENAME ":" FNR ": nothing prints the part " name > "/dev/stderr"; exit 1 }
        printf "%s", text[name]; print name >> used
      }
      /^<!-- end of generated -->$/ { if (inside) print; inside = 0 }
      END { if (inside) { print FILENAME ": a generated part has no end" > "/dev/stderr"; exit 1 } }' "$page" >"$work/page"
    if ! cmp -s "$page" "$work/page"; then
      if [ $check = yes ]; then
        diff -u "$page" "$work/page" || true
        stale=1
      else
        cp "$work/page" "$page"
        echo "wrote $page"
      fi
    fi
  done
  sed -n 's/^== //p' "$work/parts" | sort >"$work/printed"
  if ! sort "$work/used" | diff "$work/printed" - >"$work/unused"; then
    echo "generate.sh: parts that no page has, or that pages have twice:" >&2
    cat "$work/unused" >&2
    exit 1
  fi
done
if [ $stale = 1 ]; then
  echo "The pages above are stale: run docs/tools/generate.sh"
  exit 1
fi
