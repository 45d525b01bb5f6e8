// A pod's program: opens the CUDA driver, asks for each number of bytes given, and prints the
// results. Then it waits for a signal.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char** words) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) {
    printf("no driver: %s\n", dlerror());
    return 3;
  }
  int (*init)(unsigned), (*retain)(void**, int), (*current)(void*), (*allocate)(uint64_t*, size_t);
  *(void**)&init = dlsym(driver, "cuInit");
  *(void**)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
  *(void**)&current = dlsym(driver, "cuCtxSetCurrent");
  *(void**)&allocate = dlsym(driver, "cuMemAlloc_v2");
  void* context = NULL;
  int result = init(0);
  if (result == 0) result = retain(&context, 0);
  if (result == 0) result = current(context);
  if (result != 0) {
    printf("no device: %d\n", result);
    return 4;
  }
  for (int i = 1; i < count; ++i) {
    uint64_t address = 0;
    result = allocate(&address, strtoull(words[i], NULL, 10));
    printf("%s: %s\n", words[i],
           result == 0   ? "granted"
           : result == 2 ? "out of memory"
                         : "failed");
  }
  fflush(stdout);
  pause();
  return 0;
}
