#!/usr/bin/env bash
# docs/reference says what the headers say, and shows a call of every function.
set -euo pipefail
bash "$WEFT_SOURCE_DIR/docs/tools/generate.sh" --check reference
missing=$(awk '
  function judge() { if (wanted != "") print file ": " wanted " has no example: call it in a test, or move it to detail" }
  /^##/ || FNR == 1 { judge(); wanted = ""; name = $2; file = FILENAME }
  signature && /\(/ && !/(^|> )(struct|class|concept|enum|using|inline constexpr) / { wanted = name }
  { signature = /^```text/ }
  /^Example, of / { wanted = "" }
  END { judge() }' "$WEFT_SOURCE_DIR"/docs/reference/*.md)
[ -z "$missing" ] || { echo "$missing"; exit 1; }
