// What a C++ program does with berth/berth.hpp. The first word selects it; tests/cpp_test.py reads
// the output.
#include <dlfcn.h>
#include <sys/wait.h>

#include <cstring>
#include <iostream>
#include <iterator>

#include <berth/berth.hpp>

// As in the vendors' headers: berth.hpp recognises error types by name.
enum cudaError { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorIllegalAddress = 700 };
using cudaError_t = cudaError;
typedef enum cudaError_enum { CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2 } CUresult;
enum hipError_t { hipSuccess = 0, hipErrorOutOfMemory = 2, hipErrorAssert = 710 };
typedef enum { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_ALLOC_FAILED = 3 } cublasStatus_t;
typedef enum _ze_result_t {
  ZE_RESULT_SUCCESS = 0,
  ZE_RESULT_ERROR_DEVICE_LOST = 0x70000001,
  ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY = 0x70000003
} ze_result_t;

static void print(const char* key, const std::optional<std::string>& value) {
  std::cout << key << "=" << value.value_or("null") << "\n";
}

static int fail(const berth::Error& error) {
  std::cerr << error.what() << "\n";
  std::cout << "kind=" << static_cast<int>(error.kind()) << "\n";
  print("id", error.id());
  print("hint", error.hint());
  return 1;
}

static void print_devices(const std::vector<berth::Device>& devices) {
  for (const auto& one : devices)
    std::cout << one.index << "|" << one.kind << "|" << one.vendor << "|" << one.health << "|"
              << one.name.value_or("null") << "|" << one.uuid.value_or("null") << "|"
              << one.compute_capability.value_or("null") << "|"
              << one.memory_total_bytes.value_or(-1) << "|" << one.users.size() << "\n";
}

static const char* variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "null" : value;
}

static int show_lease(const berth::Request& request) {
  print("before", variable("CUDA_VISIBLE_DEVICES"));
  auto lease = berth::try_lease(request);
  if (!lease) return fail(lease.error());
  std::cout << "job=" << lease->job() << "\n";
  for (const auto& one : lease->devices()) print("device", one.uuid);
  for (const auto& [name, value] : lease->environment()) print(("set:" + name).c_str(), value);
  print("within", variable("CUDA_VISIBLE_DEVICES"));
  print("job_variable", variable("BERTH_JOB"));
  lease->end();
  lease->end();
  print("after", variable("CUDA_VISIBLE_DEVICES"));
  print("job_variable_after", variable("BERTH_JOB"));
  return 0;
}

/// A lease inside a lease that ends after the outer one, and a lease in another thread.
static int nested() {
  auto outer = berth::try_lease();
  if (!outer) return fail(outer.error());
  auto inner = berth::try_lease();
  if (!inner) return fail(inner.error());
  std::cout << "same=" << (outer->job() == inner->job()) << "\n";
  berth::Request other;
  other.devices = {"7"};
  if (auto wrong = berth::try_lease(other))
    return 2;
  else
    print("other_device", wrong.error().id());
  outer->end();
  print("outer_ended", variable("CUDA_VISIBLE_DEVICES"));
  std::thread([&] {
    auto elsewhere = berth::try_lease();
    print("thread", elsewhere ? "granted" : elsewhere.error().id());
  }).join();
  const pid_t child = ::fork();
  if (child == 0) {
    inner->end();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  print("forked", variable("CUDA_VISIBLE_DEVICES"));
  berth::Lease moved = std::move(*inner);
  moved.end(3);
  print("all_ended", variable("CUDA_VISIBLE_DEVICES"));
  return 0;
}

/// The simulated CUDA driver, without a header: runs out of memory, frees, and succeeds.
static int cuda() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return 2;
  const auto find = [&](const char* name, auto& into) {
    into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(::dlsym(driver, name));
  };
  CUresult (*init)(unsigned) = nullptr, (*create)(void**, unsigned, int) = nullptr;
  CUresult (*allocate)(unsigned long long*, std::size_t) = nullptr;
  CUresult (*release)(unsigned long long) = nullptr;
  find("cuInit", init);
  find("cuCtxCreate_v2", create);
  find("cuMemAlloc_v2", allocate);
  find("cuMemFree_v2", release);
  void* context = nullptr;
  print("not_yet", berth::try_hide() ? "hidden" : "late");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  if (init(0) != CUDA_SUCCESS || create(&context, 0, 0) != CUDA_SUCCESS) return 2;
  const auto late = berth::try_hide();
  print("late", late ? "hidden" : late.error().id());
  constexpr std::size_t kMost = std::size_t{16} << 30;  // of the device's 24 GiB
  unsigned long long cache = 0, memory = 0;
  if (allocate(&cache, kMost) != CUDA_SUCCESS) return 2;
  berth::RetryPolicy policy;
  policy.first = std::chrono::milliseconds(20);
  policy.name = "cuda";
  int released = 0;
  policy.release = [&] {
    if (++released == 2) release(cache);
  };
  const auto code = berth::try_retry(policy, [&] { return allocate(&memory, kMost); });
  std::cout << "code=" << *code << "\nreleased=" << released << "\n";
  const auto report = berth::report();
  std::cout << "out_of_memory=" << report.out_of_memory << "\nretries=" << report.retries << "\n";
  for (const auto& one : report.gpus.value())
    std::cout << "gpu=" << one.index << ":" << one.memory_bytes.value_or(-1) << "\n";
  print("text", report.text());
  return 0;
}

/// A lease that is taken after the driver has read which devices are visible.
static int late() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return 2;
  const auto init = reinterpret_cast<CUresult (*)(unsigned)>(::dlsym(driver, "cuInit"));
  if (init == nullptr || init(0) != CUDA_SUCCESS) return 2;
  const auto lease = berth::try_lease();
  print("lease", lease ? "granted" : lease.error().id());
  berth::Request cpu;
  cpu.gpus = 0;
  if (!lease) print("cpu", berth::try_lease(cpu) ? "granted" : "refused");
  return 0;
}

static const char* name_of(berth::detail::Verdict verdict) {
  constexpr const char* kNames[] = {"other", "out_of_memory", "context_lost"};
  return kNames[static_cast<int>(verdict)];
}

/// Prints the verdict on each text of standard input. Texts end with a zero byte.
static int verdicts() {
  std::string text;
  while (std::getline(std::cin, text, '\0'))
    std::cout << name_of(berth::detail::verdict_of(std::runtime_error(text))) << "\n";
  return 0;
}

static int codes() {
  using berth::is_context_lost;
  using berth::is_out_of_memory;
  constexpr int kClOutOfResources = -5, kClInvalidValue = -30;
  const bool good =
      is_out_of_memory(cudaErrorMemoryAllocation) && !is_out_of_memory(cudaSuccess) &&
      is_context_lost(cudaErrorIllegalAddress) && is_out_of_memory(CUDA_ERROR_OUT_OF_MEMORY) &&
      is_out_of_memory(hipErrorOutOfMemory) && is_context_lost(hipErrorAssert) &&
      is_out_of_memory(CUBLAS_STATUS_ALLOC_FAILED) && !is_out_of_memory(CUBLAS_STATUS_SUCCESS) &&
      is_out_of_memory(ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY) &&
      is_context_lost(ZE_RESULT_ERROR_DEVICE_LOST) && is_out_of_memory(kClOutOfResources) &&
      !is_out_of_memory(kClInvalidValue) && !is_out_of_memory(2) &&
      is_out_of_memory(std::errc::not_enough_memory) &&
      !is_out_of_memory(std::error_code(2, std::generic_category())) &&
      is_out_of_memory(std::bad_alloc()) && !is_out_of_memory(std::bad_array_new_length()) &&
      !is_out_of_memory(std::invalid_argument("CUDA out of memory. Tried to allocate")) &&
      is_out_of_memory(std::system_error(std::make_error_code(std::errc::not_enough_memory)));
  std::cout << "good=" << good << "\n";
  return 0;
}

static int defaults() {
  const berth::RetryPolicy policy;
  std::cout << policy.tries << " " << policy.first.count() << " " << policy.factor << " "
            << policy.most.count() << " " << policy.jitter << "\n";
  std::cout.precision(12);
  for (int at = 0; at < 10; ++at)
    for (const double random : {0.0, 0.25, 1.0})
      std::cout << berth::detail::pause_after(policy, at, random).count() << "\n";
  double least = 1, most = 0;
  for (int at = 0; at < 1000; ++at) {
    const double random = berth::detail::random_part();
    least = std::min(least, random);
    most = std::max(most, random);
  }
  std::cout << "spread=" << (least >= 0 && least < 0.05 && most > 0.95 && most < 1) << "\n";
  return 0;
}

#if defined(__cpp_exceptions)
/// Retries with other errors, with error codes, and with an invalid policy.
static int retries_of_others(berth::RetryPolicy policy) {
  int calls = 0;
  try {
    berth::retry(policy, [&] { ++calls, throw std::invalid_argument("wrong"); });
  } catch (const std::invalid_argument&) {
    std::cout << "passed after " << calls << "\n";
  }
  try {
    berth::retry(policy,
                 [] { throw std::runtime_error("CUDA error: device-side assert triggered"); });
  } catch (const berth::Error& lost) {
    print("lost", lost.id());
    try {
      std::rethrow_if_nested(lost);
    } catch (const std::runtime_error& cause) {
      print("cause", cause.what());
    }
  }
  try {
    try {
      throw std::bad_alloc();
    } catch (...) {
      std::throw_with_nested(std::runtime_error("the model failed"));
    }
  } catch (const std::exception& outer) {
    std::cout << "nested=" << berth::is_out_of_memory(outer) << "\n";
  }
  calls = 0;
  const cudaError_t code = berth::retry(
      policy, [&] { return ++calls < 2 ? cudaErrorMemoryAllocation : cudaErrorIllegalAddress; });
  std::cout << "code=" << code << " after " << calls << "\n";
  calls = 0;
  try {
    berth::retry<cudaError_t>(policy, [&] { ++calls, throw cudaErrorMemoryAllocation; });
  } catch (cudaError_t thrown) {
    std::cout << "thrown=" << thrown << " after " << calls << "\n";
  }
  std::cout << "int=" << berth::retry(policy, [] { return -5; })
            << "\n";  // an int is not an error code
  policy.tries = 0;
  try {
    berth::retry(policy, [] {});
  } catch (const berth::Error& problem) {
    print("policy", problem.id());
  }
  return 0;
}

static int retries() {
  berth::RetryPolicy policy;
  policy.first = std::chrono::milliseconds(1);
  int calls = 0, alive = 0;
  struct Alive {
    explicit Alive(int& counted) : count(&counted) { ++counted; }
    Alive(const Alive&) = delete;
    Alive& operator=(const Alive&) = delete;
    ~Alive() { --*count; }
    int* count;
  };
  policy.release = [&] { std::cout << "alive=" << alive << "\n"; };
  const auto made = berth::retry(policy, [&] {
    const Alive one(alive);
    if (++calls < 3) throw std::bad_alloc();
    return std::make_unique<int>(calls);  // cannot be copied
  });
  std::cout << "made=" << *made << "\n";
  policy.release = nullptr;
  calls = 0;
  try {
    berth::retry(policy, [&] {
      ++calls;
      throw std::runtime_error("CUDA out of memory. Tried to allocate 2.00 GiB");
    });
  } catch (const std::runtime_error& last) {
    std::cout << "last=" << last.what() << " after " << calls << "\n";
  }
  return retries_of_others(policy);
}
static int throwing() {
  print_devices(berth::devices());
  try {
    berth::Request request;
    request.gpus = 9;
    const berth::Lease lease = berth::lease(request);
  } catch (const berth::Error& problem) {
    print("id", problem.id());
    std::cout << "is_kind=" << (problem.kind() == berth::Kind::no_device) << "\n";
  }
  try {
    const berth::Lease lease = berth::lease();
    throw std::runtime_error("the job fails");
  } catch (const std::runtime_error&) {
  }
  berth::hide();
  return 0;
}
#endif

static std::optional<berth::Request> request_of(int argc, char** argv) {
  berth::Request request;
  for (int at = 2; at + 1 < argc; at += 2) {
    const std::string key = argv[at];
    const char* const value = argv[at + 1];
    if (key == "gpus")
      request.gpus = std::atoi(value);
    else if (key == "memory")
      request.memory_bytes = std::atoll(value);
    else if (key == "share")
      request.share = std::atof(value);
    else if (key == "cpus")
      request.cpus = std::atoi(value);
    else if (key == "device")
      request.devices.emplace_back(value);
    else if (key == "name")
      request.name = value;
    else if (key == "wait")
      request.wait = std::chrono::duration<double>(std::atof(value));
    else
      return std::nullopt;
  }
  return request;
}

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "devices") {
    const auto devices = berth::try_devices();
    if (!devices) return fail(devices.error());
    print_devices(*devices);
    return 0;
  }
  if (what == "lease")
    if (const auto request = request_of(argc, argv)) return show_lease(*request);
  if (what == "hide") {
    const auto done = berth::try_hide();
    for (char** one = ::environ; *one != nullptr; ++one) std::cout << *one << "\n";
    return done ? 0 : fail(done.error());
  }
  if (what == "report") {
    const auto report = berth::report();
    std::cout << "known=" << report.gpus.has_value() << "\n"
              << report.why << "\n"
              << report.text() << "\n";
    return 0;
  }
  if (what == "nested") return nested();
  if (what == "cuda") return cuda();
  if (what == "late") return late();
  if (what == "verdicts") return verdicts();
  if (what == "codes") return codes();
  if (what == "defaults") return defaults();
  if (what == "unchecked") {
    const auto devices = berth::try_devices();
    return static_cast<int>(devices->size());  // aborts if there is an error
  }
#if defined(__cpp_exceptions)
  if (what == "retries") return retries();
  if (what == "throwing") return throwing();
#endif
  return 64;
}
