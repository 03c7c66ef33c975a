/* Counts the calls by which a program makes and changes files. At the one that WEFT_SHIM_AT names it ends the program
   (WEFT_SHIM_HOW=kill), lets the call fail as on a full or broken disk (fail), or lets a write write half (short).
   How many there were goes to the file WEFT_SHIM_COUNT. To be preloaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int count, at = -1;
static const char *how = "kill";

__attribute__((constructor)) static void begin(void) {
  if (getenv("WEFT_SHIM_AT")) at = atoi(getenv("WEFT_SHIM_AT"));
  if (getenv("WEFT_SHIM_HOW")) how = getenv("WEFT_SHIM_HOW");
}
__attribute__((destructor)) static void end(void) {
  const char *name = getenv("WEFT_SHIM_COUNT");
  FILE *out = name ? fopen(name, "w") : NULL;
  if (!out) return;
  fprintf(out, "%d\n", count);
  fclose(out);
}

/* Whether this call is to fail. */
static int turn(void) {
  if (__atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST) != at) return 0;
  if (!strcmp(how, "kill")) _exit(99);
  return 1;
}

#define REAL(name)                       \
  static __typeof__(&name) real;         \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define MAY_FAIL(code, value) \
  if (turn()) {               \
    errno = code;             \
    return value;             \
  }

ssize_t pwrite(int file, const void *from, size_t n, off_t to) {
  REAL(pwrite);
  if (turn()) {
    if (!strcmp(how, "short") && n > 1) return real(file, from, n / 2, to);
    errno = ENOSPC;
    return -1;
  }
  return real(file, from, n, to);
}
int posix_fallocate(int file, off_t begin, off_t n) {
  REAL(posix_fallocate);
  return turn() ? ENOSPC : real(file, begin, n);
}
int fsync(int file) {
  REAL(fsync);
  MAY_FAIL(EIO, -1)
  return real(file);
}
int msync(void *p, size_t n, int flags) {
  REAL(msync);
  MAY_FAIL(EIO, -1)
  return real(p, n, flags);
}
int rename(const char *from, const char *to) {
  REAL(rename);
  MAY_FAIL(ENOSPC, -1)
  return real(from, to);
}
int remove(const char *name) {
  REAL(remove);
  MAY_FAIL(EIO, -1)
  return real(name);
}
int mkdir(const char *name, mode_t mode) {
  REAL(mkdir);
  MAY_FAIL(ENOSPC, -1)
  return real(name, mode);
}
int ftruncate(int file, off_t n) {
  REAL(ftruncate);
  MAY_FAIL(ENOSPC, -1)
  return real(file, n);
}
int close(int file) {
  REAL(close);
  turn();
  return real(file);
}
int munmap(void *p, size_t n) {
  REAL(munmap);
  turn();
  return real(p, n);
}
int fstat(int file, struct stat *is) {
  REAL(fstat);
  MAY_FAIL(EIO, -1)
  return real(file, is);
}
void *mmap(void *p, size_t n, int may, int flags, int file, off_t from) {
  REAL(mmap);
  if (file >= 0) MAY_FAIL(ENOMEM, MAP_FAILED)
  return real(p, n, may, flags, file, from);
}
int open(const char *name, int flags, ...) {
  REAL(open);
  va_list more;
  va_start(more, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
  va_end(more);
  MAY_FAIL(ENOSPC, -1)
  return real(name, flags, mode);
}
