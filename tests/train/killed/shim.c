/* Between a program and its C library, at the calls by which files are made, written, looked at, named and removed. To be preloaded. From
   weft_shim_begin(at, how) on, to weft_shim_end(), they are counted; at the at-th one the program ends (how: kill), or it fails, as on a broken disk (broken)
   or, with every later one that takes space, on a full one (full); or a write writes half (short). weft_shim_calls() says which there
   were, a letter for each: w writes, s takes space by other means, o can fail but takes none, c can't fail. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

enum { most = 1 << 16, done = 0, fails, writes_half };
static int counts, count, at;
static char how, calls[most];

void weft_shim_begin(int point, const char *way) { at = point, how = *way, counts = 1; }
void weft_shim_end(void) { counts = 0; }
const char *weft_shim_calls(void) { return calls; }

/* What becomes of a call of this kind. */
static int turn(char kind) {
  if (!counts) return done;
  const int n = __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
  if (n < most) calls[n - 1] = kind;
  if (n == at && how == 'k') _exit(99);
  if (kind == 'c' || at == 0 || n < at) return done;
  if (how == 'f' && (kind == 'w' || kind == 's')) return fails;
  if (n > at || how == 'f' || how == 'k') return done;
  return how == 's' && kind == 'w' ? writes_half : fails;
}

#define REAL(name)                      \
  static __typeof__(&name) real;        \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define REFUSED(value) (errno = how == 'f' ? ENOSPC : EIO, value)
/* A function that is done, unless it is its turn to fail. */
#define CALL(kind, type, failed, name, parameters, arguments) \
  type name parameters {                                      \
    REAL(name);                                               \
    return turn(kind) ? REFUSED(failed) : real arguments;     \
  }
#define WRITE(name, parameters, arguments, halved)              \
  ssize_t name parameters {                                     \
    REAL(name);                                                 \
    const int what = file <= 2 ? done : turn('w');              \
    if (what == writes_half && n > 1) return real halved;       \
    return what == fails ? REFUSED(-1) : real arguments;        \
  }

WRITE(write, (int file, const void *from, size_t n), (file, from, n), (file, from, n / 2))
WRITE(pwrite, (int file, const void *from, size_t n, off_t to), (file, from, n, to), (file, from, n / 2, to))
WRITE(pwrite64, (int file, const void *from, size_t n, off64_t to), (file, from, n, to), (file, from, n / 2, to))
WRITE(writev, (int file, const struct iovec *from, int n), (file, from, n), (file, from, n / 2))
CALL('s', FILE *, NULL, fopen, (const char *name, const char *mode), (name, mode))
CALL('s', FILE *, NULL, fopen64, (const char *name, const char *mode), (name, mode))
CALL('w', size_t, 0, fwrite, (const void *from, size_t size, size_t n, FILE *file), (from, size, n, file))
CALL('w', int, EOF, fflush, (FILE * file), (file))
CALL('c', int, 0, fclose, (FILE * file), (file))
CALL('o', ssize_t, -1, read, (int file, void *to, size_t n), (file, to, n))
CALL('o', ssize_t, -1, pread, (int file, void *to, size_t n, off_t from), (file, to, n, from))
CALL('s', int, -1, ftruncate, (int file, off_t n), (file, n))
CALL('s', int, -1, truncate, (const char *name, off_t n), (name, n))
CALL('w', int, -1, fsync, (int file), (file))
CALL('w', int, -1, fdatasync, (int file), (file))
CALL('w', int, -1, msync, (void *p, size_t n, int flags), (p, n, flags))
CALL('c', int, 0, munmap, (void *p, size_t n), (p, n))
CALL('c', int, 0, close, (int file), (file))
CALL('o', int, -1, fstat, (int file, struct stat *is), (file, is))
CALL('o', int, -1, fstat64, (int file, struct stat64 *is), (file, is))
CALL('o', int, -1, stat, (const char *name, struct stat *is), (name, is))
CALL('o', int, -1, stat64, (const char *name, struct stat64 *is), (name, is))
CALL('o', int, -1, lstat, (const char *name, struct stat *is), (name, is))
CALL('o', int, -1, fstatat, (int folder, const char *name, struct stat *is, int flags), (folder, name, is, flags))
CALL('o', int, -1, access, (const char *name, int how_far), (name, how_far))
CALL('o', int, -1, statvfs, (const char *name, struct statvfs *is), (name, is))
CALL('s', int, -1, rename, (const char *from, const char *to), (from, to))
CALL('s', int, -1, renameat, (int of, const char *from, int in, const char *to), (of, from, in, to))
CALL('s', int, -1, link, (const char *from, const char *to), (from, to))
CALL('s', int, -1, symlink, (const char *from, const char *to), (from, to))
CALL('s', int, -1, mkdir, (const char *name, mode_t mode), (name, mode))
CALL('o', int, -1, unlink, (const char *name), (name))
CALL('o', int, -1, unlinkat, (int folder, const char *name, int flags), (folder, name, flags))
CALL('o', int, -1, remove, (const char *name), (name))
CALL('o', int, -1, rmdir, (const char *name), (name))
CALL('o', int, -1, flock, (int file, int what), (file, what))
CALL('o', DIR *, NULL, opendir, (const char *name), (name))
CALL('o', DIR *, NULL, fdopendir, (int file), (file))
CALL('o', struct dirent *, NULL, readdir, (DIR * folder), (folder))
CALL('c', int, 0, closedir, (DIR * folder), (folder))

static FILE *unread; /* what ferror is asked about next */
size_t fread(void *to, size_t size, size_t n, FILE *file) {
  REAL(fread);
  return turn('o') ? unread = file, REFUSED(0) : real(to, size, n, file);
}
int ferror(FILE *file) {
  REAL(ferror);
  if (file != unread) return real(file);
  unread = NULL;
  return 1;
}
int posix_fallocate(int file, off_t begin, off_t n) {
  REAL(posix_fallocate);
  return turn('s') ? REFUSED(errno) : real(file, begin, n);
}
int fallocate(int file, int mode, off_t begin, off_t n) {
  REAL(fallocate);
  return turn('s') ? REFUSED(-1) : real(file, mode, begin, n);
}
void *mmap(void *p, size_t n, int may, int flags, int file, off_t from) {
  REAL(mmap);
  return file >= 0 && turn('o') ? REFUSED(MAP_FAILED) : real(p, n, may, flags, file, from);
}
/* Their last argument is there or not. */
#define LAST(type, before)  \
  va_list more;             \
  va_start(more, before);   \
  const type last = va_arg(more, type); \
  va_end(more)
int fcntl(int file, int what, ...) {
  REAL(fcntl);
  LAST(long, what);
  return turn('o') ? REFUSED(-1) : real(file, what, last);
}
int open(const char *name, int flags, ...) {
  REAL(open);
  LAST(mode_t, flags);
  return turn(flags & O_CREAT ? 's' : 'o') ? REFUSED(-1) : real(name, flags, last);
}
int open64(const char *name, int flags, ...) {
  REAL(open64);
  LAST(mode_t, flags);
  return turn(flags & O_CREAT ? 's' : 'o') ? REFUSED(-1) : real(name, flags, last);
}
int openat(int folder, const char *name, int flags, ...) {
  REAL(openat);
  LAST(mode_t, flags);
  return turn(flags & O_CREAT ? 's' : 'o') ? REFUSED(-1) : real(folder, name, flags, last);
}
