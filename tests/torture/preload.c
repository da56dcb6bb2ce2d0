// SPDX-License-Identifier: Apache-2.0
// A library to preload (LD_PRELOAD) into the command, with two parts.
//
// Faults: the n-th operation of a process on files below a folder fails, so that tests see what a
// command does on a failing disk or without memory.
//
//   HYDRAMIX_FAULT_UNDER=FOLDER   only files below it count
//   HYDRAMIX_FAULT=KIND:N:ACTION  the fault
//   HYDRAMIX_FAULT_COUNT=FILE     at exit, writes "KIND COUNT" for every kind
//
//   kind     operations                              actions
//   read     open, read, pread, fstat, stat, mmap    an errno, short: half of the bytes
//   write    open to write, write, fsync, rename     an errno, short: half of the bytes
//   map      mmap of a file                          cut: the file is emptied afterwards
//   memory   malloc, calloc, realloc, memalign       enomem
//
// Errnos are eio, enomem, enospc, emfile and eintr. An operation that cannot have the action fails
// with eio; what the standard never interrupts (stat, rename) also gets eio for eintr. Memory
// counts from the first file below the folder on: what the loader and the constructors of libraries
// allocate is not the command's.
//
// A server: loading LibTorch takes half a second, a fork takes milliseconds. With
// HYDRAMIX_SERVER=REQUESTS:REPLIES, two descriptors, the process stops before main() and forks a
// child for every request, which continues into main() with the arguments of the request.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum Kind { kRead, kWrite, kMap, kMemory, kKinds };
static const char* const kNames[kKinds] = {"read", "write", "map", "memory"};

enum { kShort = -1, kCut = -2 };
enum { kMostFiles = 4096 };

static char under[4096];
static size_t under_size;
static enum Kind fault_kind = kKinds;
static long fault_at;
static int fault_action;
static atomic_long counts[kKinds];
static atomic_int started;
static atomic_char watched[kMostFiles];  // by descriptor

static void* next_function(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == NULL) abort();
  return found;
}

#define NEXT(result, name, ...)              \
  static result (*next)(__VA_ARGS__) = NULL; \
  if (next == NULL) next = (result(*)(__VA_ARGS__))next_function(name)

static int action_named(const char* name) {
  static const struct {
    const char* name;
    int action;
  } known[] = {{"eio", EIO},     {"enomem", ENOMEM}, {"enospc", ENOSPC}, {"emfile", EMFILE},
               {"eintr", EINTR}, {"short", kShort},  {"cut", kCut}};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
    if (strcmp(name, known[i].name) == 0) return known[i].action;
  abort();
}

__attribute__((constructor)) static void read_environment(void) {
  const char* folder = getenv("HYDRAMIX_FAULT_UNDER");
  if (folder != NULL) {
    under_size = strlen(folder);
    if (under_size >= sizeof under) abort();
    memcpy(under, folder, under_size);
  }
  const char* fault = getenv("HYDRAMIX_FAULT");
  if (fault == NULL) return;
  char kind[16], action[16];
  if (sscanf(fault, "%15[^:]:%ld:%15s", kind, &fault_at, action) != 3) abort();
  fault_action = action_named(action);
  for (int k = 0; k < kKinds; ++k)
    if (strcmp(kind, kNames[k]) == 0) fault_kind = (enum Kind)k;
  if (fault_kind == kKinds) abort();
}

__attribute__((destructor)) static void report(void) {
  const char* path = getenv("HYDRAMIX_FAULT_COUNT");
  if (path == NULL) return;
  FILE* out = fopen(path, "w");
  if (out == NULL) return;
  for (int k = 0; k < kKinds; ++k) fprintf(out, "%s %ld\n", kNames[k], atomic_load(&counts[k]));
  fclose(out);
}

// Counts an operation; returns the action when it is the one to fail, else 0.
static int fault(enum Kind kind) {
  const long number = atomic_fetch_add(&counts[kind], 1) + 1;
  return kind == fault_kind && number == fault_at ? fault_action : 0;
}

// As fault(), for an operation that has no bytes and is never interrupted.
static int plain_fault(enum Kind kind) {
  const int action = fault(kind);
  return action < 0 || action == EINTR ? EIO : action;
}

static int is_watched_path(const char* path) {
  if (under_size == 0 || path == NULL || strncmp(path, under, under_size) != 0) return 0;
  atomic_store(&started, 1);
  return 1;
}

static int is_watched(int descriptor) {
  return descriptor >= 0 && descriptor < kMostFiles && atomic_load(&watched[descriptor]);
}

static int fail(int code) {
  errno = code;
  return -1;
}

// ---- files ----

static int open_any(int at, const char* path, int flags, mode_t mode) {
  NEXT(int, "openat", int, const char*, int, mode_t);
  const int watch = is_watched_path(path) && (flags & O_DIRECTORY) == 0;
  if (watch) {
    const int action = plain_fault((flags & O_ACCMODE) == O_RDONLY ? kRead : kWrite);
    if (action != 0) return fail(action);
  }
  const int descriptor = next(at, path, flags, mode);
  if (descriptor >= 0 && descriptor < kMostFiles) atomic_store(&watched[descriptor], (char)watch);
  return descriptor;
}

#define MODE(flags)                           \
  mode_t mode = 0;                            \
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) { \
    va_list arguments;                        \
    va_start(arguments, flags);               \
    mode = va_arg(arguments, mode_t);         \
    va_end(arguments);                        \
  }

int open(const char* path, int flags, ...) {
  MODE(flags)
  return open_any(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  MODE(flags)
  return open_any(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}
int openat(int at, const char* path, int flags, ...) {
  MODE(flags)
  return open_any(at, path, flags, mode);
}

int close(int descriptor) {
  NEXT(int, "close", int);
  if (descriptor >= 0 && descriptor < kMostFiles) atomic_store(&watched[descriptor], 0);
  return next(descriptor);
}

ssize_t read(int descriptor, void* buffer, size_t size) {
  NEXT(ssize_t, "read", int, void*, size_t);
  if (is_watched(descriptor)) {
    const int action = fault(kRead);
    if (action > 0) return fail(action);
    if (action < 0) size = size / 2 > 0 ? size / 2 : size;
  }
  return next(descriptor, buffer, size);
}

ssize_t pread64(int descriptor, void* buffer, size_t size, off64_t offset) {
  NEXT(ssize_t, "pread64", int, void*, size_t, off64_t);
  if (is_watched(descriptor)) {
    const int action = fault(kRead);
    if (action > 0) return fail(action);
    if (action < 0) size = size / 2 > 0 ? size / 2 : size;
  }
  return next(descriptor, buffer, size, offset);
}

ssize_t write(int descriptor, const void* buffer, size_t size) {
  NEXT(ssize_t, "write", int, const void*, size_t);
  if (is_watched(descriptor)) {
    const int action = fault(kWrite);
    if (action > 0) return fail(action);
    if (action < 0) size = size / 2 > 0 ? size / 2 : size;
  }
  return next(descriptor, buffer, size);
}

int fsync(int descriptor) {
  NEXT(int, "fsync", int);
  const int action = is_watched(descriptor) ? plain_fault(kWrite) : 0;
  return action != 0 ? fail(action) : next(descriptor);
}

int rename(const char* from, const char* to) {
  NEXT(int, "rename", const char*, const char*);
  const int action = is_watched_path(to) ? plain_fault(kWrite) : 0;
  return action != 0 ? fail(action) : next(from, to);
}

int fstat(int descriptor, struct stat* result) {
  NEXT(int, "fstat", int, struct stat*);
  const int action = is_watched(descriptor) ? plain_fault(kRead) : 0;
  return action != 0 ? fail(action) : next(descriptor, result);
}
int fstat64(int descriptor, struct stat64* result) {
  NEXT(int, "fstat64", int, struct stat64*);
  const int action = is_watched(descriptor) ? plain_fault(kRead) : 0;
  return action != 0 ? fail(action) : next(descriptor, result);
}
int stat(const char* path, struct stat* result) {
  NEXT(int, "stat", const char*, struct stat*);
  const int action = is_watched_path(path) ? plain_fault(kRead) : 0;
  return action != 0 ? fail(action) : next(path, result);
}
int stat64(const char* path, struct stat64* result) {
  NEXT(int, "stat64", const char*, struct stat64*);
  const int action = is_watched_path(path) ? plain_fault(kRead) : 0;
  return action != 0 ? fail(action) : next(path, result);
}

static void* map_any(void* address, size_t size, int protection, int flags, int descriptor,
                     off64_t offset) {
  NEXT(void*, "mmap64", void*, size_t, int, int, int, off64_t);
  int cut = 0;
  if (is_watched(descriptor)) {
    cut = fault(kMap) == kCut;
    const int action = plain_fault(kRead);
    if (action != 0) {
      errno = action;
      return MAP_FAILED;
    }
  }
  void* mapped = next(address, size, protection, flags, descriptor, offset);
  if (cut) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 0) {
      path[length] = '\0';
      if (truncate(path, 0) != 0) abort();
    }
  }
  return mapped;
}
void* mmap(void* address, size_t size, int protection, int flags, int descriptor, off_t offset) {
  return map_any(address, size, protection, flags, descriptor, offset);
}
void* mmap64(void* address, size_t size, int protection, int flags, int descriptor,
             off64_t offset) {
  return map_any(address, size, protection, flags, descriptor, offset);
}

// ---- memory ----

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static int no_memory(void) { return atomic_load(&started) && fault(kMemory) != 0; }

void* malloc(size_t size) {
  if (!no_memory()) return __libc_malloc(size);
  errno = ENOMEM;
  return NULL;
}
void* calloc(size_t count, size_t size) {
  if (!no_memory()) return __libc_calloc(count, size);
  errno = ENOMEM;
  return NULL;
}
void* realloc(void* old, size_t size) {
  if (!no_memory()) return __libc_realloc(old, size);
  errno = ENOMEM;
  return NULL;
}
void* memalign(size_t alignment, size_t size) {
  if (!no_memory()) return __libc_memalign(alignment, size);
  errno = ENOMEM;
  return NULL;
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** result, size_t alignment, size_t size) {
  *result = memalign(alignment, size);
  return *result == NULL ? ENOMEM : 0;
}

// ---- server ----

static int (*command_main)(int, char**, char**);

// Reads or writes all bytes; 0 at the end of the pipe.
static int transfer(int descriptor, void* data, size_t size, int is_read) {
  char* next_byte = data;
  while (size > 0) {
    const ssize_t count =
        is_read ? read(descriptor, next_byte, size) : write(descriptor, next_byte, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return 0;
    next_byte += count;
    size -= (size_t)count;
  }
  return 1;
}

// A request is texts that end in zero bytes: working folder, stdin, stdout, stderr, bytes of
// memory that may be added ("0": any), then VARIABLE=VALUE texts up to an empty one, then the
// arguments.
static int run_request(char* text, const char* end, char* program) {
  char* head[5];
  for (int i = 0; i < 5; ++i, text += strlen(text) + 1) head[i] = text;
  if (chdir(head[0]) != 0) abort();
  for (int i = 0; i < 3; ++i) {
    const int flags = i == 0 ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC;
    const int descriptor = open(head[i + 1], flags, 0666);
    if (descriptor < 0 || dup2(descriptor, i) < 0) abort();
    close(descriptor);
  }
  for (; *text != '\0'; text += strlen(text) + 1) putenv(text);
  ++text;
  int count = 1;
  for (const char* at = text; at < end; at += strlen(at) + 1) ++count;
  char** arguments = calloc((size_t)count + 1, sizeof *arguments);
  arguments[0] = program;
  for (int i = 1; i < count; ++i, text += strlen(text) + 1) arguments[i] = text;
  const long memory = atol(head[4]);
  if (memory > 0) {
    FILE* status = fopen("/proc/self/statm", "r");
    long pages = 0;
    if (status == NULL || fscanf(status, "%ld", &pages) != 1) abort();
    fclose(status);
    const rlim_t bytes = (rlim_t)(pages * sysconf(_SC_PAGESIZE) + memory);
    const struct rlimit limit = {bytes, bytes};
    if (setrlimit(RLIMIT_AS, &limit) != 0) abort();
  }
  unsetenv("HYDRAMIX_SERVER");
  extern char** environ;
  read_environment();
  return command_main(count, arguments, environ);
}

static int server_main(int count, char** arguments, char** environment) {
  const char* pipes = getenv("HYDRAMIX_SERVER");
  int requests, replies;
  if (pipes == NULL) return command_main(count, arguments, environment);
  if (sscanf(pipes, "%d:%d", &requests, &replies) != 2) abort();
  size_t size;
  while (transfer(requests, &size, sizeof size, 1)) {
    char* text = malloc(size + 1);
    if (text == NULL || !transfer(requests, text, size, 1)) abort();
    const pid_t child = fork();
    if (child == 0) {
      close(requests);
      close(replies);
      return run_request(text, text + size, arguments[0]);
    }
    int reply = child;
    if (child < 0 || !transfer(replies, &reply, sizeof reply, 0)) abort();
    while (waitpid(child, &reply, 0) < 0)
      if (errno != EINTR) abort();
    if (!transfer(replies, &reply, sizeof reply, 0)) abort();
    free(text);
  }
  _exit(0);
}

int __libc_start_main(int (*main)(int, char**, char**), int count, char** arguments,
                      void (*init)(void), void (*fini)(void), void (*loader)(void), void* stack) {
  NEXT(int, "__libc_start_main", int (*)(int, char**, char**), int, char**, void (*)(void),
       void (*)(void), void (*)(void), void*);
  command_main = main;
  return next(server_main, count, arguments, init, fini, loader, stack);
}
