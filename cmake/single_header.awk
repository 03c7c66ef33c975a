# awk -v out=FILE -f single_header.awk INCLUDE_DIR weft/weft.hpp: one header that stands for the whole tree below the one named.
# A header is written once, where it is first included, or, where that is inside an #if, before the header that includes it;
# an .inl each time it is included, also through the macro WEFT_KERNELS; standard includes stay where they are. Anything it
# can't follow is an error.

function stop(where, sentence) {
  print "single_header: " where ": " sentence >"/dev/stderr"
  failed = 1
  exit 1
}

function put(line) { print line >out }

function read(file,   path, line, n) {
  if (file in lines) return
  path = root "/" file
  n = 0
  while ((got = (getline line <path)) > 0) text[file, ++n] = line
  if (got < 0) stop(file, "can't be read under " root)
  close(path)
  lines[file] = n
  for (got = 1; got <= n; got++)
    if (text[file, got] ~ /^[ \t]*#[ \t]*pragma[ \t]+once/) once[file] = 1
}

# Before a file: what it includes inside an #if. Written there, others that include it later might go without.
function write_conditional(file,   i, inside, target) {
  for (i = 1; i <= lines[file]; i++) {
    if (text[file, i] ~ /^[ \t]*#[ \t]*if/) inside++
    if (text[file, i] ~ /^[ \t]*#[ \t]*endif/) inside--
    if (inside == 0 || text[file, i] !~ /^[ \t]*#[ \t]*include[ \t]*<weft\//) continue
    target = named(text[file, i])
    read(target)
    if (target in once) write(target)
  }
}

function write(file,   i, line, target) {
  read(file)
  if (file in once) {
    if (file in written) return
    if (depth > 0) stop(file, "is first included inside an #if of an .inl")
    written[file] = 1
    write_conditional(file)
  } else if (file !~ /\.inl$/) {
    stop(file, "has no #pragma once, and is no .inl")
  }
  put("\n// " file)
  for (i = 1; i <= lines[file]; i++) {
    line = text[file, i]
    if (line !~ /^[ \t]*#/) {
      put(line)
      continue
    }
    if (line ~ /^[ \t]*#[ \t]*pragma[ \t]+once/) continue
    if (line ~ /^[ \t]*#[ \t]*if/) depth++
    if (line ~ /^[ \t]*#[ \t]*endif/) depth--
    if (line ~ /^[ \t]*#[ \t]*define[ \t]+WEFT_KERNELS[ \t]/) kernels = named(line)
    if (line ~ /^[ \t]*#[ \t]*undef[ \t]+WEFT_KERNELS/) kernels = ""
    if (line ~ /^[ \t]*#[ \t]*pragma[ \t]+push_macro\("WEFT_KERNELS"\)/) kept[++keeps] = kernels
    if (line ~ /^[ \t]*#[ \t]*pragma[ \t]+pop_macro\("WEFT_KERNELS"\)/) kernels = kept[keeps--]
    if (line !~ /^[ \t]*#[ \t]*include/) {
      put(line)
      continue
    }
    if (line ~ /include[ \t]+WEFT_KERNELS/) {
      if (kernels == "") stop(file ":" i, "WEFT_KERNELS names no file here")
      target = kernels
    } else {
      target = named(line)
      if (target == "") stop(file ":" i, "an include through a macro other than WEFT_KERNELS")
    }
    if (target ~ /^weft\//) write(target)
    else if (line ~ /include[ \t]*"/) stop(file ":" i, "includes " target " by a relative path; write <weft/...>")
    else put(line)
  }
}

# What stands between <> or "" in a line.
function named(line) {
  if (!match(line, /[<"][^>"]+[>"]/)) return ""
  return substr(line, RSTART + 1, RLENGTH - 2)
}

BEGIN {
  if (ARGC != 3 || out == "") stop("usage", "awk -v out=FILE -f single_header.awk INCLUDE_DIR weft/weft.hpp")
  root = ARGV[1]
  put("// Weft in one header, for the CPU. Generated from include/" ARGV[2] " by cmake/single_header.awk: change that tree, not this.")
  put("#pragma once")
  write(ARGV[2])
  exit
}
END { exit failed }
