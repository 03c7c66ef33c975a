# Reads ctest's JUnit report and prints, a line for each folder of tests, the seconds that they took: shares of the wall's time, as
# if as many as `jobs` had run all the time. Of folders below a hundredth of the whole the sum alone.
/<testcase / {
  if (!match($0, / name="[^"]*"/)) next
  name = substr($0, RSTART + 7, RLENGTH - 8)
  if (!match($0, / time="[^"]*"/)) next
  seconds = substr($0, RSTART + 7, RLENGTH - 8) / jobs
  folder = name
  sub(/\/.*/, "", folder)
  if (name ~ /\/nvcc$/) folder = folder " (nvcc)"
  if (name ~ /\/g\+\+$/) folder = folder " (g++)"
  if (name ~ /\/clang\+\+$/) folder = folder " (clang)"
  took[folder] += seconds
  all += seconds
}
END {
  for (folder in took)
    if (took[folder] < all / 100) rest += took[folder]
    else printf "%-10s %-16s %6d s\n", preset, folder, took[folder] | "sort -rn -k1.28"
  close("sort -rn -k1.28")
  printf "%-10s %-16s %6d s\n", preset, "others", rest
}
