// A program that is linked to the CUDA driver and starts itself again by vfork() and exec while it
// holds memory. Usage: vfork BYTES; prints, of the child and then of the parent, the result of an
// allocation and the free memory before it.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuMemAlloc_v2(uint64_t*, size_t);
int cuMemGetInfo_v2(size_t*, size_t*);

static void print_allocation(const char* who, size_t bytes) {
  uint64_t address = 0;
  size_t free_bytes = 0, total = 0;
  cuMemGetInfo_v2(&free_bytes, &total);
  printf("%s %d %zu\n", who, cuMemAlloc_v2(&address, bytes), free_bytes);
  fflush(stdout);
}

int main(int count, char** words) {
  void* context = NULL;
  uint64_t address = 0;
  const size_t bytes = count > 1 ? (size_t)strtoull(words[1], NULL, 10) : 0;
  if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxSetCurrent(context) != 0)
    return 3;
  if (count > 2) {
    print_allocation("child", bytes);
    return 0;
  }
  if (cuMemAlloc_v2(&address, bytes) != 0) return 4;
  char more[] = "child";
  char* const again[] = {words[0], words[1], more, NULL};
  const pid_t child = vfork();
  if (child == 0) {
    execv("/proc/self/exe", again);
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 5;
  print_allocation("parent", bytes);
  return 0;
}
