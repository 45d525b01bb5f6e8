// Kernels, buffers and the pool of berth/kernels.hpp, for tests/cpp_kernels_test.py. Prints what it
// found as key=value.
#include <berth/berth.hpp>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

const char* const kSource =
    R"(KERNEL void axpy(GLOBAL const float* x, GLOBAL float* y, float a, int n) {
  int i = GLOBAL_ID(0);
  if (i < n) y[i] = a * x[i] + y[i];
}
KERNEL void turn(GLOBAL const int* from, GLOBAL int* into, int rows, int columns) {
  int x = GLOBAL_ID(0), y = GLOBAL_ID(1);
  if (x < columns && y < rows) into[x * rows + y] = from[y * columns + x];
})";

const char* id_of(const berth::Error& error) {
  static std::string kept;
  kept = error.id();
  return kept.c_str();
}

bool axpy_is_right(const berth::Compute& device) {
  constexpr std::size_t kCount = 1000;  // no multiple of a group
  std::vector<float> x(kCount), y(kCount), found(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    x[i] = 0.1F * static_cast<float>(i);
    y[i] = 1.0F / (1.0F + static_cast<float>(i));
  }
  const auto axpy = device.try_kernel(kSource, "axpy");
  auto on_x = device.try_buffer(kCount * sizeof(float)),
       on_y = device.try_buffer(kCount * sizeof(float));
  if (!axpy || !on_x || !on_y || !on_x->try_write(x.data(), on_x->bytes()) ||
      !on_y->try_write(y.data(), on_y->bytes()))
    return false;
  const auto event = axpy->try_launch(kCount, *on_x, *on_y, 0.3F, static_cast<int>(kCount));
  if (!event) return false;
  const auto seconds = event->try_seconds();
  if (!seconds || *seconds < 0 || !on_y->try_read(found.data(), on_y->bytes())) return false;
  std::vector<float> expected(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    volatile const float product = 0.3F * x[i];  // not contracted into one operation
    expected[i] = product + y[i];
  }
  return std::memcmp(found.data(), expected.data(), kCount * sizeof(float)) == 0;
}

bool turn_is_right(const berth::Compute& device) {
  constexpr int kRows = 37, kColumns = 53;
  std::vector<int> from(kRows * kColumns), into(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<int>(i * 7);
  const auto turn = device.try_kernel(kSource, "turn");
  auto a = device.try_buffer(from.size() * sizeof(int)),
       b = device.try_buffer(from.size() * sizeof(int));
  if (!turn || !a || !b || !a->try_write(from.data(), a->bytes()) ||
      !turn->try_launch({kColumns, kRows}, *a, *b, kRows, kColumns) ||
      !b->try_read(into.data(), b->bytes()))
    return false;
  for (int y = 0; y < kRows; ++y)
    for (int x = 0; x < kColumns; ++x)
      if (into[static_cast<std::size_t>(x * kRows + y)] !=
          from[static_cast<std::size_t>(y * kColumns + x)])
        return false;
  return true;
}

void pool(const berth::Compute& device) {
  device.trim();
  const auto before = device.pool();
  for (int i = 0; i < 100; ++i) {
    auto one = device.try_buffer(1000);
    if (!one) std::puts("pool=failed");
  }
  const auto after = device.pool();
  std::printf("allocations=%ld\nreuses=%ld\nused=%zu\nkept=%zu\n",
              after.allocations - before.allocations, after.reuses - before.reuses,
              after.used_bytes, after.free_bytes);
  device.trim();
  std::printf("trimmed=%zu\n", device.pool().free_bytes);
}

void mistakes(const berth::Compute& device) {
  const auto broken =
      device.try_kernel("KERNEL void f(GLOBAL float* x) {\n  x[0] = nowhere;\n}", "f");
  std::printf("broken=%s\nline=%d\n", broken ? "none" : id_of(broken.error()),
              !broken && (broken.error().message().find("2:") != std::string::npos ||
                          broken.error().message().find("(2)") != std::string::npos));
  const auto absent = device.try_kernel(kSource, "absent");
  std::printf("absent=%s\n", absent ? "none" : id_of(absent.error()));
  const auto axpy = device.try_kernel(kSource, "axpy");
  auto buffer = device.try_buffer(16);
  if (!axpy || !buffer) return;
  const auto fewer = axpy->try_launch(4, *buffer, *buffer);
  std::printf("fewer=%s\n", fewer ? "none" : id_of(fewer.error()));
  const auto wide = axpy->try_launch(4, *buffer, *buffer, 0.5, 4);  // a double for a float
  std::printf("wide=%s\n", wide ? "none" : id_of(wide.error()));
  const auto empty = axpy->try_launch(0, *buffer, *buffer, 0.5F, 4);
  std::printf("empty=%s\n", empty ? "none" : id_of(empty.error()));
  char bytes[32] = {};
  const auto beyond = buffer->try_read(bytes, sizeof bytes);
  std::printf("beyond=%s\n", beyond ? "none" : id_of(beyond.error()));
  const auto huge = device.try_buffer(std::size_t{1} << 60);
  std::printf("huge=%s\n", huge ? "none" : id_of(huge.error()));
}

berth::ComputeBackend backend_of(const char* word) {
  if (std::strcmp(word, "cuda") == 0) return berth::ComputeBackend::cuda;
  return std::strcmp(word, "opencl") == 0 ? berth::ComputeBackend::opencl
                                          : berth::ComputeBackend::automatic;
}

/// Whether bytes come back from the device as they were written.
bool copies_are_right(const berth::Compute& device) {
  std::vector<int> numbers(5000), found(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i * 31);
  auto buffer = device.try_buffer(numbers.size() * sizeof(int));
  return buffer && buffer->try_write(numbers.data(), buffer->bytes()) &&
         buffer->try_read(found.data(), buffer->bytes()) && found == numbers;
}

/// Whether a kernel with right arguments can be launched, waited for, and timed.
bool launch_works(const berth::Compute& device) {
  const auto axpy = device.try_kernel(kSource, "axpy");
  auto x = device.try_buffer(64), y = device.try_buffer(64);
  if (!axpy || !x || !y) return false;
  const auto event = axpy->try_launch(16, *x, *y, 0.5F, 16);
  if (!event) return false;
  const auto seconds = event->try_seconds();
  return seconds && *seconds >= 0;
}

/// The parameters that the header reads in a source, for drivers that do not tell them.
void parameters() {
  const std::string source =
      "KERNEL void empty(void) {}\nDEVICE float KERNELS(float x);\n"
      "KERNEL  void f( GLOBAL const double* x,\n uint n, long m, char c, const ushort s ) {}";
  for (const char* name : {"f", "empty", "KERNELS", "g"}) {
    std::printf("parameters_%s=", name);
    const auto sizes = berth::detail::parameter_sizes(source, name);
    if (!sizes) std::printf("none");
    for (const std::size_t one : sizes.value_or(std::vector<std::size_t>{}))
      std::printf("%zu ", one);
    std::puts("");
  }
}

}  // namespace

int main(int count, char** words) {
  parameters();
  const auto device = berth::try_compute(backend_of(count > 1 ? words[1] : ""));
  if (!device) {
    std::printf("none=%s\n", id_of(device.error()));
    return 0;
  }
  std::printf("device=%s\nbackend=%s\naxpy=%d\nturn=%d\n", device->name().c_str(),
              device->backend(), axpy_is_right(*device), turn_is_right(*device));
  std::printf("copies=%d\nlaunch=%d\n", copies_are_right(*device), launch_works(*device));
  pool(*device);
  mistakes(*device);
#if defined(__cpp_exceptions)
  try {
    static_cast<void>(device->kernel("KERNEL void f( {", "f"));
  } catch (const berth::Error& error) {
    std::printf("thrown=%s\n", id_of(error));
  }
#endif
  return 0;
}
