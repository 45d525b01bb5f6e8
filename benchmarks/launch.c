// launch COMMAND...: starts the command once and prints "nanoseconds kilobytes code". The time is
// from just before the start to the last byte of output. The memory is the maximum resident set,
// including reaped children. A separate program measures this, because the memory of a large parent
// would count as the child's maximum, and its fork would be slower.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static pid_t child;
static void give_up(int signal) {
  (void)signal;
  kill(-child, SIGKILL);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const char* limit = getenv("LAUNCH_SECONDS");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return 1;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  extern char** environ;
  const long long start = now();
  if (posix_spawnp(&child, argv[1], &actions, &attributes, argv + 1, environ) != 0) return 127;
  close(ends[1]);
  signal(SIGALRM, give_up);
  alarm(limit ? (unsigned)atoi(limit) : 60);
  char buffer[65536];
  while (read(ends[0], buffer, sizeof buffer) > 0) continue;
  const long long end = now();
  int status;
  struct rusage usage;
  while (wait4(child, &status, 0, &usage) < 0) continue;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  printf("%lld %ld %d\n", end - start, usage.ru_maxrss, code);
  return 0;
}
