// A libOpenCL for tests with one device. The variable FAKE_OPENCL makes it fail in a certain way.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int32_t clGetPlatformIDs(uint32_t room, void** platforms, uint32_t* count);
EXPORT int32_t clGetPlatformInfo(void* platform, uint32_t key, size_t room, void* value,
                                 size_t* size);
EXPORT int32_t clGetDeviceIDs(void* platform, uint64_t type, uint32_t room, void** devices,
                              uint32_t* count);
EXPORT int32_t clGetDeviceInfo(void* device, uint32_t key, size_t room, void* value, size_t* size);

static int one_platform, one_device;

static int is(const char* what) {
  const char* chosen = getenv("FAKE_OPENCL");
  return chosen != NULL && strcmp(chosen, what) == 0;
}

static int32_t give(const void* from, size_t bytes, size_t room, void* value, size_t* size) {
  if (bytes > room) return -30;  // -30 is CL_INVALID_VALUE
  memcpy(value, from, bytes);
  *size = bytes;
  return 0;
}

int32_t clGetPlatformIDs(uint32_t room, void** platforms, uint32_t* count) {
  if (is("hang"))
    for (;;) pause();
  if (is("spin"))
    for (;;) {
    }
  if (is("slow"))
    for (int i = 0; i < 150; ++i) usleep(10000);
  if (is("crash")) abort();
  if (is("exit")) _exit(0);
  if (is("none")) return -1001;  // -1001 is CL_PLATFORM_NOT_FOUND_KHR
  printf("platforms print what they like\n");
  fflush(stdout);
  if (room > 0) platforms[0] = &one_platform;
  *count = is("many") ? 4000000000U : 1;
  return 0;
}

int32_t clGetPlatformInfo(void* platform, uint32_t key, size_t room, void* value, size_t* size) {
  (void)key;
  if (platform == NULL) return -32;  // -32 is CL_INVALID_PLATFORM
  return give("Fake", 5, room, value, size);
}

int32_t clGetDeviceIDs(void* platform, uint64_t type, uint32_t room, void** devices,
                       uint32_t* count) {
  (void)type;
  if (platform == NULL) return -32;
  if (room > 0) devices[0] = &one_device;
  *count = 1;
  return 0;
}

int32_t clGetDeviceInfo(void* device, uint32_t key, size_t room, void* value, size_t* size) {
  const uint64_t type = 4;
  const uint64_t memory = 8ULL << 30;
  const uint32_t units = 60;
  const uint32_t yes = 1;
  const uint32_t bus[4] = {0, 0x81, 0, 0};
  if (device == NULL) return -33;  // -33 is CL_INVALID_DEVICE
  switch (key) {
    case 0x1000:
      return give(&type, sizeof type, room, value, size);
    case 0x1002:
      return give(&units, sizeof units, room, value, size);
    case 0x101F:
      return give(&memory, sizeof memory, room, value, size);
    case 0x1027:
      return give(&yes, sizeof yes, room, value, size);
    case 0x102B:
      return give("Fake \033[31m GPU", 15, room, value, size);
    case 0x102C:
      return give("Fake Vendor", 12, room, value, size);
    case 0x102D:
      return give("1.2.3", 6, room, value, size);
    case 0x410F:
      return give(bus, sizeof bus, room, value, size);
    default:
      return -30;
  }
}
