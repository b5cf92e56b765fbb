// A library for LD_PRELOAD that makes the n-th call of one kind fail in a program under test. Built by
// tests/cli/conftest.py.
//
//   LOADSTONE_FAULT=KIND:N:ERRNO[:+]   the N-th call (from 1) fails with this errno, with :+ all later ones, too;
//                                      ERRNO 0: the call does half of its work (pread, read, write)
//   LOADSTONE_FAULT_REPORT=FILE        at the end of main(): "calls fired descriptors_before descriptors_after"
//
// Counting starts with main() and ends with it: what the loader and static constructors do is not ours to judge.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static atomic_int armed;
static atomic_long calls, fired;
static char kind[16];
static long nth;
static int error_number, onwards;

// True when this call is to fail.
static int fails(const char* name) {
  if (!atomic_load(&armed) || strcmp(name, kind) != 0) return 0;
  const long number = atomic_fetch_add(&calls, 1) + 1;
  if (number != nth && !(onwards && number > nth)) return 0;
  atomic_fetch_add(&fired, 1);
  return 1;
}

#define REAL(name)               \
  static __typeof__(&name) real; \
  if (!real) *(void**)&real = dlsym(RTLD_NEXT, #name)

#define FAIL_WITH(value)  \
  do {                    \
    errno = error_number; \
    return (value);       \
  } while (0)

#define OPEN(name)                                                 \
  int name(const char* path, int flags, ...) {                     \
    va_list list;                                                  \
    va_start(list, flags);                                         \
    const mode_t mode = va_arg(list, mode_t);                      \
    va_end(list);                                                  \
    REAL(name);                                                    \
    if (fails(flags & O_CREAT ? "create" : "open")) FAIL_WITH(-1); \
    return real(path, flags, mode);                                \
  }
OPEN(open)
OPEN(open64)

#define PREAD(name, offset_type)                                      \
  ssize_t name(int fd, void* data, size_t size, offset_type offset) { \
    REAL(name);                                                       \
    if (fails("pread")) {                                             \
      if (error_number != 0) FAIL_WITH(-1);                           \
      size = (size + 1) / 2;                                          \
    }                                                                 \
    return real(fd, data, size, offset);                              \
  }
PREAD(pread, off_t)
PREAD(pread64, off64_t)

ssize_t read(int fd, void* data, size_t size) {
  REAL(read);
  if (fails("read")) {
    if (error_number != 0) FAIL_WITH(-1);
    size = (size + 1) / 2;
  }
  return real(fd, data, size);
}

ssize_t write(int fd, const void* data, size_t size) {
  REAL(write);
  // Messages on stdout and stderr are another matter than files.
  if (fd > 2 && fails("write")) {
    if (error_number != 0) FAIL_WITH(-1);
    size = (size + 1) / 2;
  }
  return real(fd, data, size);
}

#define SIMPLE(result, name, counted, failure, parameters, arguments) \
  result name parameters {                                            \
    REAL(name);                                                       \
    if (fails(counted)) FAIL_WITH(failure);                           \
    return real arguments;                                            \
  }
SIMPLE(int, fstat, "fstat", -1, (int fd, struct stat* out), (fd, out))
SIMPLE(int, stat, "stat", -1, (const char* path, struct stat* out), (path, out))
SIMPLE(int, fsync, "fsync", -1, (int fd), (fd))
SIMPLE(int, rename, "rename", -1, (const char* from, const char* to), (from, to))
SIMPLE(int, fallocate, "fallocate", -1, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size))
SIMPLE(int, mkdir, "mkdir", -1, (const char* path, mode_t mode), (path, mode))
SIMPLE(DIR*, opendir, "opendir", NULL, (const char* path), (path))

// What failed to close is closed all the same, as Linux does.
int close(int fd) {
  REAL(close);
  const int fault = fails("close");
  const int done = real(fd);
  if (fault) FAIL_WITH(-1);
  return done;
}

int pthread_create(pthread_t* out, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  REAL(pthread_create);
  if (fails("thread")) return error_number;
  return real(out, attributes, body, argument);
}

void* malloc(size_t size) {
  if (fails("malloc")) FAIL_WITH(NULL);
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  if (fails("malloc")) FAIL_WITH(NULL);
  return __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  if (fails("malloc")) FAIL_WITH(NULL);
  return __libc_realloc(old, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  if (fails("malloc")) FAIL_WITH(NULL);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
  if (fails("malloc")) return ENOMEM;
  *out = __libc_memalign(alignment, size);
  return *out == NULL ? ENOMEM : 0;
}
void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  if (fails("mmap")) FAIL_WITH((void*)-1);
  return (void*)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}
void* mmap64(void* address, size_t size, int protection, int flags, int fd, off64_t offset) {
  return mmap(address, size, protection, flags, fd, offset);
}

static int descriptors(void) {
  int count = 0;
  for (int fd = 0; fd < 4096; ++fd) count += syscall(SYS_fcntl, fd, F_GETFD) >= 0;
  return count;
}

static int descriptors_before;

static void report(void) {
  atomic_store(&armed, 0);
  const char* path = getenv("LOADSTONE_FAULT_REPORT");
  char text[128];
  const int length = snprintf(text, sizeof text, "%ld %ld %d %d\n", calls, fired, descriptors_before, descriptors());
  const int out = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0644) : -1;
  if (out >= 0 && syscall(SYS_write, out, text, length) != length) abort();
}

// Ended without unwinding: the kernel closes what is open.
void _exit(int code) {
  descriptors_before = descriptors();
  report();
  syscall(SYS_exit_group, code);
  __builtin_unreachable();
}

static int (*real_main)(int, char**, char**);

static int counted_main(int argc, char** argv, char** environment) {
  const char* fault = getenv("LOADSTONE_FAULT");
  if (fault && sscanf(fault, "%15[^:]:%ld:%d", kind, &nth, &error_number) == 3) {
    onwards = fault[strlen(fault) - 1] == '+';
  }
  descriptors_before = descriptors();
  atomic_store(&armed, 1);
  const int code = real_main(argc, argv, environment);
  report();
  return code;
}

int __libc_start_main(int (*main_function)(int, char**, char**), int argc, char** argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void* stack_end) {
  static int (*real)(int (*)(int, char**, char**), int, char**, void (*)(void), void (*)(void), void (*)(void), void*);
  if (!real) *(void**)&real = dlsym(RTLD_NEXT, "__libc_start_main");
  real_main = main_function;
  return real(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}
