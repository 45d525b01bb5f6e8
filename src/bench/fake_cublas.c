// A simulated libcublas for tests. It computes products on the CPU, in the simulated driver's
// memory. It appends a line for each product to the file that FAKE_CUBLAS_CALLS names. With
// FAKE_CUBLAS=wrong, the products are zeros.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { kFp32, kFp64, kFp16, kBf16 = 14 };               // values of cudaDataType_t
enum { kCompute32 = 68, kCompute64 = 70, kTf32 = 77 };  // values of cublasComputeType_t
enum { kInvalidValue = 7, kNotSupported = 15 };         // values of cublasStatus_t

EXPORT int cublasCreate_v2(void** handle);
EXPORT int cublasSetStream_v2(void* handle, void* stream);
EXPORT int cublasGemmEx(void* handle, int trans_a, int trans_b, int m, int n, int k,
                        const void* alpha, const void* a, int a_type, int lda, const void* b,
                        int b_type, int ldb, const void* beta, void* c, int c_type, int ldc,
                        int compute_type, int algorithm);

static int one_handle;

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

static double element(const void* data, int type, size_t at) {
  if (type == kFp64) return ((const double*)data)[at];
  if (type == kFp32) return ((const float*)data)[at];
  const uint16_t half = ((const uint16_t*)data)[at];
  if (type == kBf16) return of_bits((uint32_t)half << 16);
  _Float16 value;
  memcpy(&value, &half, sizeof value);
  return (double)value;
}

static void put(void* data, int type, size_t at, double value) {
  if (type == kFp64) ((double*)data)[at] = value;
  if (type == kFp32) ((float*)data)[at] = (float)value;
  if (type == kBf16) ((uint16_t*)data)[at] = (uint16_t)((bits_of((float)value) + 0x8000U) >> 16);
  if (type == kFp16) {
    const _Float16 half = (_Float16)value;
    memcpy((uint16_t*)data + at, &half, sizeof half);
  }
}

static void count(int type, int compute_type, int n) {
  const char* path = getenv("FAKE_CUBLAS_CALLS");
  FILE* file = path == NULL ? NULL : fopen(path, "a");
  if (file == NULL) return;
  fprintf(file, "%d %d %d\n", type, compute_type, n);
  fclose(file);
}

int cublasCreate_v2(void** handle) {
  *handle = &one_handle;
  return 0;
}

int cublasSetStream_v2(void* handle, void* stream) {
  return handle == &one_handle && stream != NULL ? 0 : kInvalidValue;
}

int cublasGemmEx(void* handle, int trans_a, int trans_b, int m, int n, int k, const void* alpha,
                 const void* a, int a_type, int lda, const void* b, int b_type, int ldb,
                 const void* beta, void* c, int c_type, int ldc, int compute_type, int algorithm) {
  const int is_double = a_type == kFp64;
  if (handle != &one_handle || trans_a != 0 || trans_b != 0 || algorithm != -1 ||
      (is_double ? *(const double*)beta != 0 : *(const float*)beta != 0))
    return kInvalidValue;
  if (a_type != b_type || a_type != c_type || is_double != (compute_type == kCompute64) ||
      (compute_type == kTf32 && a_type != kFp32))
    return kNotSupported;
  count(a_type, compute_type, n);
  const char* mode = getenv("FAKE_CUBLAS");
  const double scale = is_double ? *(const double*)alpha : *(const float*)alpha;
  const double factor = mode != NULL && strcmp(mode, "wrong") == 0 ? 0 : scale;
  double* column = calloc((size_t)m, sizeof(double));
  double* left = calloc((size_t)m * (size_t)k, sizeof(double));
  if (column == NULL || left == NULL) abort();
  for (size_t x = 0; x < (size_t)k; ++x)
    for (size_t y = 0; y < (size_t)m; ++y)
      left[x * (size_t)m + y] = element(a, a_type, x * (size_t)lda + y);
  for (size_t j = 0; j < (size_t)n; ++j) {
    memset(column, 0, (size_t)m * sizeof(double));
    for (size_t x = 0; x < (size_t)k; ++x) {
      const double right = factor * element(b, b_type, j * (size_t)ldb + x);
      for (size_t y = 0; y < (size_t)m; ++y) column[y] += left[x * (size_t)m + y] * right;
    }
    for (size_t y = 0; y < (size_t)m; ++y) put(c, c_type, j * (size_t)ldc + y, column[y]);
  }
  free(left);
  free(column);
  return 0;
}
