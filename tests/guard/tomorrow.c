// A driver of the future: it has a function that takes memory and that Berth does not know.
#include <stddef.h>
#include <stdint.h>

int cuInit(unsigned flags) {
  return flags == 0 ? 0 : 1;
}
int cuMemAllocTomorrow(uint64_t* address, size_t bytes) {
  *address = bytes;
  return 0;
}
/// Not one that takes memory.
int cuDeviceLookTomorrow(void) {
  return 0;
}
