// A library for LD_PRELOAD that writes to the file RECORD what a program asks the CUDA driver for:
// "dlsym NAME", "query NAME,VERSION,FLAGS", "table UUID". The answers are the driver's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*Query)(const char*, void**, int, uint64_t, int*);
typedef int (*OldQuery)(const char*, void**, int, uint64_t);
typedef int (*Table)(const void**, const unsigned char*);

static Query real_query;
static OldQuery real_old_query;
static Table real_table;

static FILE* record(void) {
  static FILE* file;
  if (file == NULL) {
    file = fopen(getenv("RECORD"), "a");
    if (file == NULL) abort();
    setlinebuf(file);
  }
  return file;
}

static void* instead_of(const char* name, int version, void* function);

static int query(const char* name, void** function, int version, uint64_t flags, int* status) {
  fprintf(record(), "query %s,%d,%u\n", name, version, (unsigned)flags);
  const int result = real_query(name, function, version, flags, status);
  if (result == 0) *function = instead_of(name, version, *function);
  return result;
}
static int old_query(const char* name, void** function, int version, uint64_t flags) {
  fprintf(record(), "query %s,%d,%u\n", name, version, (unsigned)flags);
  const int result = real_old_query(name, function, version, flags);
  if (result == 0) *function = instead_of(name, version, *function);
  return result;
}
static int table(const void** out, const unsigned char* uuid) {
  fprintf(record(), "table ");
  for (int i = 0; i < 16; ++i) fprintf(record(), "%02x", uuid[i]);
  fprintf(record(), "\n");
  return real_table(out, uuid);
}

/// From version 12000 on, cuGetProcAddress is the function with the status.
static void* instead_of(const char* name, int version, void* function) {
  if (function == NULL) return NULL;
  if (strcmp(name, "cuGetExportTable") == 0) {
    real_table = (Table)function;
    return (void*)table;
  }
  const int is_plain = strcmp(name, "cuGetProcAddress") == 0;
  if (strcmp(name, "cuGetProcAddress_v2") == 0 || (is_plain && version >= 12000)) {
    real_query = (Query)function;
    return (void*)query;
  }
  if (!is_plain) return function;
  real_old_query = (OldQuery)function;
  return (void*)old_query;
}

void* dlsym(void* library, const char* name) {
  static void* (*real)(void*, const char*);
  const char* const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
  for (int i = 0; real == NULL && i < 3; ++i)
    *(void**)&real = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
  void* function = real(library, name);
  if (strncmp(name, "cu", 2) != 0) return function;
  fprintf(record(), "dlsym %s\n", name);
  return instead_of(name, 0, function);
}
