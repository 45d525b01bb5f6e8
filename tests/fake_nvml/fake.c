/* A minimal libnvidia-ml.so.1, built once for each fault (CMakeLists.txt here). Its structs are
 * declared again on purpose: a mistake in vendor/nvml/abi.hpp must not be repeated in its test.
 *
 * - FAKE_DEVICES: number of devices (default 8)
 * - FAKE_STRIDE: record size that the _v3 process list writes: 16, 24 (default) or 32
 * - FAKE_MISSING: nvmlDeviceGetCount_v2 does not exist
 * - FAKE_HANG_LOAD, FAKE_HANG_INIT: loading or initialisation never returns
 * - FAKE_CRASH_INIT: SIGSEGV during initialisation
 * - FAKE_HANG_COUNT: nvmlDeviceGetCount_v2 never returns
 * - FAKE_CRASH_SECOND: SIGSEGV in every second device
 * - FAKE_HANG_DEVICE, FAKE_CRASH_DEVICE, FAKE_LOST_DEVICE, FAKE_REFUSED_DEVICE: index of the device
 * - FAKE_INIT_CODE: result of nvmlInit_v2
 * - FAKE_LIST_CODE: result of the list of compute processes
 * - FAKE_LIST_GROWS: there is always one process more than fits into the buffer
 * - FAKE_LIST_ENDS: after this many answers the list of compute processes is refused
 * - FAKE_NO_ATTACH: only initialisation without attaching works; only devices with an even address
 *   may be queried
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef FAKE_DEVICES
#define FAKE_DEVICES 8
#endif
#ifndef FAKE_STRIDE
#define FAKE_STRIDE 24
#endif
#ifndef FAKE_INIT_CODE
#define FAKE_INIT_CODE 0
#endif
#ifndef FAKE_HANG_DEVICE
#define FAKE_HANG_DEVICE (-1)
#endif
#ifndef FAKE_CRASH_DEVICE
#define FAKE_CRASH_DEVICE (-1)
#endif
#ifndef FAKE_LOST_DEVICE
#define FAKE_LOST_DEVICE (-1)
#endif
#ifndef FAKE_REFUSED_DEVICE
#define FAKE_REFUSED_DEVICE (-1)
#endif

#define EXPORT __attribute__((visibility("default")))

typedef struct {
  int index;
} Device;

static Device devices[FAKE_DEVICES];

static void hang(void) {
  for (;;) pause();
}

#ifdef FAKE_HANG_LOAD
__attribute__((constructor)) static void load(void) {
  hang();
}
#endif

static int init(void) {
#ifdef FAKE_HANG_INIT
  hang();
#endif
#ifdef FAKE_CRASH_INIT
  raise(SIGSEGV);
#endif
  for (int i = 0; i < FAKE_DEVICES; ++i) devices[i].index = i;
  return FAKE_INIT_CODE;
}

EXPORT int nvmlInit_v2(void) {
#ifdef FAKE_NO_ATTACH
  return 999;
#else
  return init();
#endif
}

EXPORT int nvmlInitWithFlags(unsigned flags) {
  return flags == 2 ? init() : 999;
}

EXPORT int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  snprintf(text, size, "580.95.05");
  return 0;
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return 0;
}

#ifndef FAKE_MISSING
EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
#ifdef FAKE_HANG_COUNT
  hang();
#endif
  *count = FAKE_DEVICES;
  return 0;
}
#endif

static int handle(unsigned index, Device** device) {
  if (index >= FAKE_DEVICES) return 2;
  if ((int)index == FAKE_LOST_DEVICE) return 15;
  if ((int)index == FAKE_REFUSED_DEVICE) return 999;
  *device = &devices[index];
  return 0;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device** device) {
#ifdef FAKE_NO_ATTACH
  raise(SIGSEGV); /* this would wake them all */
#endif
  return handle(index, device);
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* address, Device** device) {
  unsigned domain = 0, bus = 0, slot = 0;
  if (sscanf(address, "%x:%x:%x", &domain, &bus, &slot) != 3 || bus < 0x10) return 2;
#ifdef FAKE_NO_ATTACH
  if ((bus - 0x10) % 2 != 0) raise(SIGSEGV); /* asleep: this would wake it */
#endif
  if (bus - 0x10 >= FAKE_DEVICES) return 6;
  return handle(bus - 0x10, device);
}

EXPORT int nvmlDeviceGetIndex(Device* device, unsigned* index) {
  *index = (unsigned)device->index;
  return 0;
}

EXPORT int nvmlDeviceGetName(Device* device, char* text, unsigned size) {
  (void)device;
  snprintf(text, size, "NVIDIA Fake 1000");
  return 0;
}

EXPORT int nvmlDeviceGetUUID(Device* device, char* text, unsigned size) {
  snprintf(text, size, "GPU-0000000%d-fake-fake-fake-000000000000", device->index);
  return 0;
}

typedef struct {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char address[32];
} Pci;

EXPORT int nvmlDeviceGetPciInfo_v3(Device* device, Pci* pci) {
  memset(pci, 0, sizeof(*pci));
  pci->bus = 0x10 + (unsigned)device->index;
  pci->id = 0x233010deu;
  snprintf(pci->address, sizeof(pci->address), "%08X:%02X:00.0", 0u, pci->bus);
  return 0;
}

typedef struct {
  unsigned long long total, free, used;
} Memory;

EXPORT int nvmlDeviceGetMemoryInfo(Device* device, Memory* memory) {
  if (device->index == FAKE_HANG_DEVICE) hang();
  if (device->index == FAKE_CRASH_DEVICE) raise(SIGSEGV);
#ifdef FAKE_CRASH_SECOND
  if (device->index % 2 == 1) raise(SIGSEGV);
#endif
  memory->total = 80ull << 30;
  memory->used = (unsigned long long)(device->index + 1) << 30;
  memory->free = memory->total - memory->used;
  return 0;
}

EXPORT int nvmlDeviceGetUtilizationRates(Device* device, unsigned* percent) {
  percent[0] = 10u * (unsigned)device->index;
  percent[1] = 5;
  return 0;
}

EXPORT int nvmlDeviceGetTemperature(Device* device, unsigned sensor, unsigned* celsius) {
  (void)sensor;
  *celsius = 40u + (unsigned)device->index;
  return 0;
}

EXPORT int nvmlDeviceGetTotalEnergyConsumption(Device* device, unsigned long long* millijoules) {
  (void)device;
  *millijoules = 123456;
  return 0;
}

/* Three processes on every device: pids 1000, 1001, 1002. */
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(Device* device, unsigned* count, void* out) {
#ifdef FAKE_LIST_CODE
  (void)device, (void)count, (void)out;
  return FAKE_LIST_CODE;
#endif
  const unsigned have = *count;
#ifdef FAKE_LIST_GROWS
  (void)device, (void)out;
  *count = have + 1;
  return 7;
#endif
#ifdef FAKE_LIST_ENDS
  static int answers = 0;
  if (++answers > FAKE_LIST_ENDS) return 4;
#endif
  *count = 3;
  if (have < 3 || out == NULL) return 7;
  for (unsigned i = 0; i < 3; ++i) {
    unsigned char* record = (unsigned char*)out + (size_t)i * FAKE_STRIDE;
    const uint32_t pid = 1000 + i;
    const uint64_t memory = (uint64_t)(i + 1) << 28;
    const uint32_t none = 0xffffffffu;
    const uint64_t protected_memory = 0;
    memcpy(record, &pid, 4);
    memset(record + 4, 0, 4);
    memcpy(record + 8, &memory, 8);
    if (FAKE_STRIDE >= 24) {
      memcpy(record + 16, &none, 4);
      memcpy(record + 20, &none, 4);
    }
    if (FAKE_STRIDE >= 32) memcpy(record + 24, &protected_memory, 8);
  }
  (void)device;
  return 0;
}

#if defined(FAKE_LIST_CODE) || defined(FAKE_LIST_GROWS)
/* No graphics processes. This says nothing about compute processes. */
EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(Device* device, unsigned* count, void* out) {
  (void)device, (void)out;
  *count = 0;
  return 0;
}
#endif
