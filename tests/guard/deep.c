// A library that is linked to the CUDA driver and is opened with RTLD_DEEPBIND. Its own libraries
// then come before preloaded ones. take(): the result of an allocation; found(): whether dlsym()
// finds the driver's function.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuMemAlloc_v2(uint64_t*, size_t);

int take(size_t bytes) {
  void* context = NULL;
  uint64_t address = 0;
  if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxSetCurrent(context) != 0)
    return -1;
  return cuMemAlloc_v2(&address, bytes);
}

int found(size_t bytes) {
  uint64_t address = 0;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  int (*allocate)(uint64_t*, size_t) = NULL;
  if (driver != NULL) *(void**)&allocate = dlsym(driver, "cuMemAlloc_v2");
  return allocate == NULL ? -1 : allocate(&address, bytes);
}
