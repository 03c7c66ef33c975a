# Reads ctest's JUnit report and prints: passed failed skipped. A doctest program counts with its test cases, any other
# test as one. A program that fails without a failed test case (a crash, a sanitizer, a time-out) counts as one failure.
function attribute(name,  text) {
  if (!match($0, " " name "=\"[^\"]*\"")) return ""
  text = substr($0, RSTART, RLENGTH)
  sub(/^[^"]*"/, "", text); sub(/"$/, "", text)
  return text
}
function finish() {
  if (status == "") return
  if (status == "notrun" || status == "disabled") {
    if (excused) skipped++; else failed++
  } else {
    ok = status == "run"
    if (cases == 0) { if (ok) passed++; else failed++ }
    else {
      passed += case_passed
      failed += case_failed
      if (!ok && case_failed == 0) failed++
    }
  }
  status = ""
}
/<testcase / { finish(); status = attribute("status"); cases = case_passed = case_failed = 0; excused = 0 }
/<skipped message="SKIP_/ { excused = 1 }
/\[doctest\] test cases:/ {
  n = split($0, field, "|")
  split(field[1], word, ":"); cases += word[2]
  for (i = 2; i <= n; i++) {
    if (field[i] ~ /passed/) case_passed += field[i]
    else if (field[i] ~ /failed/) case_failed += field[i]
  }
}
END { finish(); print passed + 0, failed + 0, skipped + 0 }
