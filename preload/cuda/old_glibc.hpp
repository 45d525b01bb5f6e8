// Selects the oldest version of libc functions: the guard is loaded into programs of any age, and
// CUDA 11 and later run on glibc 2.17 and newer.
#pragma once

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
