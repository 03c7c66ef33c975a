#!/usr/bin/env bash
# A save over a folder of another configuration, or another tokenizer, or without a configuration, that is killed, or fails, at every call by
# which it makes or changes files: who reads the folder finds what was there before or the new model, never the weights of one under the
# configuration or beside the tokenizer of the other, or is told what to rename to have one of them; and the next save succeeds.
# Of another configuration without a tokenizer: tests/train/checkpoint_killed_test.sh.
set -euo pipefail
here="${WEFT_SOURCE_DIR:-$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CC:-gcc}" -shared -fPIC -O1 "$here/tests/train/killed/shim.c" -o "$work/shim.so" -ldl
bash "$here/tests/check/program.sh" "$work/program" quick -I"$here/include" "$here/tests/io/killed/program.cpp" -ldl
cd "$work"
for seed in 1 2; do  # tokenizers, and of like/ the tokens' numbers too
  mkdir -p like/$seed/additional_chat_templates same/$seed/additional_chat_templates
  for name in tokenizer.json chat_template.jinja additional_chat_templates/tools.jinja; do
    echo "$name of $seed" | tee like/$seed/$name >same/$seed/$name
  done
  echo "{\"eos_token_id\": $seed}" >like/$seed/config.json
done
mkdir -p before/nothing before/bare
./program save before/bare 1 bare
for files in one many adapters; do ./program save before/$files 1 $files; done
for like in like same; do
  for files in one many; do ./program save before/$files-$like 1 $files $like/1; done
done
fault() { echo "FAULT: from $from to $to, $how at call $at of $calls: $*"; ls folder; cat said; exit 1; }
again() { rm -rf folder && cp -r "before/$from" folder; }
save() { ./program save folder 2 "$to" ${like:+$like/2}; }
step=41 first=0 told=0 whole=0 points=0  # every 41st call, of each way another; all of them where all is asked for
[ "${WEFT_TEST_ALL:-}" != yes ] || step=1
for way in 'adapters adapters' 'nothing one like' 'nothing many' 'bare one' 'bare many like' \
  'one-like one like' 'one-like many like' 'many one like' 'many-like many like' 'one-same one same' 'many-same many same'; do
  read -r from to like <<<"$way"
  again
  LD_PRELOAD=./shim.so COUNT=count save
  calls=$(cat count) old=1
  [ $from != nothing ] || old=0
  [ "$calls" -ge 12 ] && [ "$(./program read folder "$to")" = 2 ] || { echo "FAULT: $way: $calls calls"; exit 1; }
  for how in kill broken; do
    first=$((first % step + 1))
    for at in $(seq $first $step $((calls + 1))); do
      again
      points=$((points + 1)) code=0
      LD_PRELOAD=./shim.so AT=$at HOW=$how save >said 2>&1 || code=$?
      found=$(./program read folder "$to" 2>&1) || true
      if [[ $found == *" isn't there, since a save was killed"*"; save the model there again, or rename "* ]]; then
        [ $how = kill ] || fault "it isn't whole: $found"
        told=$((told + 1))
        words=${found##*or rename }
        while read -r a b; do mv "$a" "$b"; done < <(sed 's/ and /\n/g; s/ to / /g' <<<"$words")
        found=$(./program read folder "$to" 2>&1) || true
        [[ $found == ["$old"2] ]] || fault "renamed, it can't be read: $found"
      fi
      [[ $found == ["$old"2] ]] || fault "$found"
      [ "$found" != 2 ] || whole=$((whole + 1))
      [ $how = kill ] || [ $code != 0 ] || [ "$found" = 2 ] || fault "nothing was saved, and nothing said"
      save >said 2>&1 || fault "it can't be saved again"
      [ "$(./program read folder "$to")" = 2 ] || fault "saved again, it can't be read"
      [ -z "$(find folder -name '*.unfinished' -o -name '*.before')" ] || fault "files are left"
    done
  done
done
echo "$points points, after $told of which files had to be renamed; after $whole the model was new"
[ $told -gt 0 ] && [ $whole -gt 0 ]
