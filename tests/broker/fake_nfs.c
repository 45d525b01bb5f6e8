// Preloaded: makes folders with "fake-nfs" in their path look like NFS.
#define _GNU_SOURCE
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

int statfs(const char* path, struct statfs* into) {
  const int done = (int)syscall(SYS_statfs, path, into);
  if (done == 0 && strstr(path, "fake-nfs") != NULL) into->f_type = 0x6969;
  return done;
}

int statfs64(const char* path, struct statfs64* into) {
  return statfs(path, (struct statfs*)into);
}
