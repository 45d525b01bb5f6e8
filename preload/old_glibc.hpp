// Selects the oldest version of libc functions: the guard is loaded into programs of any age, and
// CUDA 11 and later run on glibc 2.17 and newer.
//
// Functions that musl lacks are weak symbols, so that a program built for musl also starts with
// the guard.
#pragma once

#include <dlfcn.h>

extern "C" __attribute__((weak)) void* dlvsym(void* handle, const char* name,
                                              const char* version) noexcept;
/// glibc's pthread_atfork() calls this function.
extern "C" __attribute__((weak)) int __register_atfork(void (*prepare)(), void (*parent)(),
                                                       void (*child)(), void* library) noexcept;
extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;

#if defined(__x86_64__)
#define BERTH_OLD_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define BERTH_OLD_GLIBC "GLIBC_2.17"
#endif

#ifdef BERTH_OLD_GLIBC
__asm__(".symver dlopen, dlopen@" BERTH_OLD_GLIBC);
__asm__(".symver dlvsym, dlvsym@" BERTH_OLD_GLIBC);
__asm__(".symver dladdr, dladdr@" BERTH_OLD_GLIBC);
#endif
