// A libamdhip64 and librocblas for tests: one GPU at 0000:c1:00.0 whose memory is the memory of the
// host, and products on the CPU. With FAKE_ROCBLAS=wrong, the products are zeros.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum { kFp16 = 150, kFp32 = 151, kFp64 = 152, kBf16 = 168 };  // values of rocblas_datatype
enum { kInvalidValue = 11 };                                  // values of rocblas_status

static int one_handle;

EXPORT int hipDeviceGetByPCIBusId(int* device, const char* pci_address);
EXPORT int hipSetDevice(int device);
EXPORT int hipMemGetInfo(size_t* available, size_t* total);
EXPORT int hipMalloc(void** memory, size_t bytes);
EXPORT int hipFree(void* memory);
EXPORT int hipMemcpy(void* to, const void* from, size_t bytes, int kind);
EXPORT int hipEventCreate(void** event);
EXPORT int hipEventRecord(void* event, void* stream);
EXPORT int hipEventSynchronize(void* event);
EXPORT int hipEventElapsedTime(float* milliseconds, void* start, void* end);
EXPORT int rocblas_create_handle(void** handle);
EXPORT int rocblas_gemm_ex(void* handle, int trans_a, int trans_b, int m, int n, int k,
                           const void* alpha, const void* a, int a_type, int lda, const void* b,
                           int b_type, int ldb, const void* beta, const void* c, int c_type,
                           int ldc, void* d, int d_type, int ldd, int compute_type, int algorithm,
                           int solution, unsigned flags);

int hipDeviceGetByPCIBusId(int* device, const char* pci_address) {
  *device = 0;
  return strcmp(pci_address, "0000:c1:00.0") == 0 ? 0 : 101;
}
int hipSetDevice(int device) {
  return device == 0 ? 0 : 101;
}
int hipMemGetInfo(size_t* available, size_t* total) {
  *available = *total = (size_t)1 << 30;
  return 0;
}
int hipMalloc(void** memory, size_t bytes) {
  *memory = malloc(bytes);
  return *memory == NULL ? 2 : 0;
}
int hipFree(void* memory) {
  free(memory);
  return 0;
}
int hipMemcpy(void* to, const void* from, size_t bytes, int kind) {
  if (kind != 1 && kind != 2) return 21;
  memcpy(to, from, bytes);
  return 0;
}
int hipEventCreate(void** event) {
  *event = calloc(1, sizeof(struct timespec));
  return *event == NULL ? 2 : 0;
}
int hipEventRecord(void* event, void* stream) {
  return stream == NULL ? clock_gettime(CLOCK_MONOTONIC, event) : 400;
}
int hipEventSynchronize(void* event) {
  return event == NULL ? 400 : 0;
}
int hipEventElapsedTime(float* milliseconds, void* start, void* end) {
  const struct timespec *from = start, *to = end;
  *milliseconds = (float)((double)(to->tv_sec - from->tv_sec) * 1e3 +
                          (double)(to->tv_nsec - from->tv_nsec) * 1e-6);
  return 0;
}

int rocblas_create_handle(void** handle) {
  *handle = &one_handle;
  return 0;
}

static float of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// Converts an fp16 number to float. Subnormal numbers become 0, which is exact enough for tests.
static float of_half(uint16_t half) {
  const uint32_t magnitude = half & 0x7FFFU, sign = (uint32_t)(half & 0x8000U) << 16;
  return magnitude < 0x400U ? of_bits(sign) : of_bits(sign | ((magnitude << 13) + (112U << 23)));
}
static uint16_t half_of(float value) {
  const uint32_t bits = bits_of(value) + 0x1000U, magnitude = bits & 0x7FFFFFFFU;
  const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000U);
  return magnitude < 113U << 23 ? sign : (uint16_t)(sign | (magnitude - (112U << 23)) >> 13);
}

static double element(const void* data, int type, size_t at) {
  if (type == kFp64) return ((const double*)data)[at];
  if (type == kFp32) return (double)((const float*)data)[at];
  const uint16_t narrow = ((const uint16_t*)data)[at];
  return (double)(type == kBf16 ? of_bits((uint32_t)narrow << 16) : of_half(narrow));
}

static void put(void* data, int type, size_t at, double value) {
  if (type == kFp64) ((double*)data)[at] = value;
  if (type == kFp32) ((float*)data)[at] = (float)value;
  if (type == kBf16) ((uint16_t*)data)[at] = (uint16_t)((bits_of((float)value) + 0x8000U) >> 16);
  if (type == kFp16) ((uint16_t*)data)[at] = half_of((float)value);
}

int rocblas_gemm_ex(void* handle, int trans_a, int trans_b, int m, int n, int k, const void* alpha,
                    const void* a, int a_type, int lda, const void* b, int b_type, int ldb,
                    const void* beta, const void* c, int c_type, int ldc, void* d, int d_type,
                    int ldd, int compute_type, int algorithm, int solution, unsigned flags) {
  if (handle != &one_handle || trans_a != 111 || trans_b != 111 || c != d || ldc != ldd ||
      a_type != b_type || a_type != c_type || a_type != d_type || algorithm != 0 || solution != 0 ||
      flags != 0 || compute_type != (a_type == kFp64 ? kFp64 : kFp32) ||
      element(beta, compute_type, 0) != 0)
    return kInvalidValue;
  const char* mode = getenv("FAKE_ROCBLAS");
  const int is_wrong = mode != NULL && strcmp(mode, "wrong") == 0;
  const double factor = is_wrong ? 0 : element(alpha, compute_type, 0);
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      double sum = 0;
      for (int x = 0; x < k; ++x)
        sum += element(a, a_type, (size_t)x * (size_t)lda + (size_t)i) *
               element(b, b_type, (size_t)j * (size_t)ldb + (size_t)x);
      put(d, d_type, (size_t)j * (size_t)ldd + (size_t)i, factor * sum);
    }
  return 0;
}
