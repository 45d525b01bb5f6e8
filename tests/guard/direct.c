// A program that is linked to libcuda.so.1 and does not use dlopen. Tests whether it is refused one
// byte above its quota.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuMemAlloc_v2(uint64_t*, size_t);
int cuGetProcAddress_v2(const char*, void**, int, uint64_t, int*);

int main(int count, char** words) {
  void *context = NULL, *found = NULL;
  uint64_t address = 0;
  if (count < 2 || cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 ||
      cuCtxSetCurrent(context) != 0)
    return 1;
  const size_t quota = strtoull(words[1], NULL, 10);
  const int direct = cuMemAlloc_v2(&address, quota + 1);
  if (cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 0, NULL) != 0) return 1;
  int (*allocate)(uint64_t*, size_t);
  *(void**)&allocate = found;
  const int asked = allocate(&address, quota + 1);
  printf("%d %d %d\n", direct, asked, allocate(&address, quota));
  return 0;
}
