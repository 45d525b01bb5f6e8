// Preloaded into berth and its broker: a line in DISK_ORDER for each file that is renamed, and for
// each that is brought to the disk.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void note(const char* word, const char* path) {
  const char* log = getenv("DISK_ORDER");
  char line[4200];
  const int size = snprintf(line, sizeof line, "%s %s\n", word, path);
  const int file = log ? open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
  if (file < 0) return;
  if (write(file, line, (size_t)size) != size) abort();
  close(file);
}

static int sync_one(int file, long number) {
  char link[64], path[4096];
  const long result = syscall(number, file);
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  path[size < 0 ? 0 : size] = 0;
  note("sync", path);
  return (int)result;
}

int fsync(int file) {
  return sync_one(file, SYS_fsync);
}

int fdatasync(int file) {
  return sync_one(file, SYS_fdatasync);
}

int rename(const char* from, const char* to) {
  note("rename", to);
  return (int)syscall(SYS_rename, from, to);
}
