// Counts the memory that PyTorch's allocator has on the CPU, for tests: preloaded, it replaces
// c10::alloc_cpu and c10::free_cpu. At the end it writes the peak to the file BERTH_ALLOCATOR_PEAK.
// It shares no code with what `berth plan measure` does.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS (1U << 20)
static void* keys[SLOTS];
static size_t sizes[SLOTS], now, most;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void* real(const char* name) {
  void* library = NULL;
  const char* names[] = {"libc10.so.1.13", "libc10.so"};
  for (int i = 0; i < 2 && library == NULL; ++i) library = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
  return library == NULL ? NULL : dlsym(library, name);
}

static unsigned slot_of(void* key) {
  unsigned slot = (unsigned)(((uintptr_t)key >> 6) * 2654435761U) & (SLOTS - 1);
  while (keys[slot] != NULL && keys[slot] != key) slot = (slot + 1) & (SLOTS - 1);
  return slot;
}

void* _ZN3c109alloc_cpuEm(size_t size) {
  static void* (*allocate)(size_t);
  if (allocate == NULL) *(void**)&allocate = real("_ZN3c109alloc_cpuEm");
  void* got = allocate(size);
  if (got == NULL) return got;
  pthread_mutex_lock(&lock);
  const unsigned slot = slot_of(got);
  keys[slot] = got;
  sizes[slot] = size;
  now += size;
  if (now > most) most = now;
  pthread_mutex_unlock(&lock);
  return got;
}

void _ZN3c108free_cpuEPv(void* what) {
  static void (*release)(void*);
  if (release == NULL) *(void**)&release = real("_ZN3c108free_cpuEPv");
  if (what != NULL) {
    pthread_mutex_lock(&lock);
    const unsigned slot = slot_of(what);
    if (keys[slot] == what) {
      now -= sizes[slot];
      sizes[slot] = 0;  // the key stays, so that searches go on past it
    }
    pthread_mutex_unlock(&lock);
  }
  release(what);
}

__attribute__((destructor)) static void write_peak(void) {
  const char* path = getenv("BERTH_ALLOCATOR_PEAK");
  FILE* file = path != NULL && most > 0 ? fopen(path, "w") : NULL;
  if (file == NULL) return;
  fprintf(file, "%zu\n", most);
  fclose(file);
}
