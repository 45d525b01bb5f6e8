// A benchmark case has a key, the quantity that it measures, the kind of device, and the function
// that runs it. The function runs in a child process (bench/child.hpp), because it calls vendors'
// code.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace berth::bench {

enum class Kind : unsigned char { kGemm, kMemory, kCopy, kPeer, kLaunch };
enum class Backend : unsigned char { kCpu, kOpenCl, kCuda };

[[nodiscard]] std::string_view name(Kind kind);        // "gemm", "memory", "copy", "peer", "launch"
[[nodiscard]] std::string_view name(Backend backend);  // "cpu", "opencl", "cuda"
[[nodiscard]] std::optional<Kind> kind_of(std::string_view name);

/// The device on which a case runs.
struct Target {
  Backend backend = Backend::kCpu;
  std::string opencl_library;    // the OpenCL library's soname or path
  std::string opencl_name;       // CL_DEVICE_NAME as in `berth ls`; "": the name is not compared
  std::string pci_address;       // "": not on PCI
  std::string peer_pci_address;  // for a copy between GPUs: the address of the second GPU
  // Python environments that may contain wheels with CUDA libraries.
  std::vector<std::string> python_prefixes;
  int threads = 1;                     // number of CPUs that this process may use
  std::uint64_t cpu_memory_bytes = 0;  // memory that this process may use; 0: unknown
};

struct Effort {
  double seconds = 1;  // how long to repeat the run
  // number of rows of a matrix, or number of bytes; 0: the case chooses a size
  std::uint64_t size = 0;
};

/// The value of Measured::library for Berth's own loops and kernels.
inline constexpr const char* kOwnCode = "berth";
/// Measured::library for a copy between GPUs: a direct copy, or through the host's memory in two
/// steps if the driver allows no direct copy.
inline constexpr const char *kPeerAccess = "peer access", *kThroughHost = "the host's memory";

/// What a case measured. bench/figure.hpp computes figures from it.
struct Measured {
  std::string library;     // what computed the result: a path, a name, or kOwnCode
  std::uint64_t size = 0;  // rows of the square matrices, or bytes of one array
  double work = 0;  // floating-point operations or bytes in a run; 0: the result is only a time
  std::vector<double> seconds;  // time of each run, after the warm-up
  /// Time until an asynchronous call returned, before its work was done. Absent if synchronous.
  std::optional<double> naive_seconds;
  /// The largest relative error of the checked samples, and the largest error that is allowed.
  std::optional<double> max_error, allowed_error;
};

struct Case {
  const char* key;  // "gemm.fp32"
  Kind kind;
  Backend backend;
  const char* precision;  // "fp32"; "": the case has no precision
  Result<Measured> (*run)(const Target&, const Effort&);
};

/// The largest number of rows for which three square matrices fit in `bytes`. Elements take
/// `element_bytes`. Starts with `most` and halves it until they fit, but not below 256.
[[nodiscard]] std::uint64_t rows_that_fit(std::uint64_t most, std::uint64_t element_bytes,
                                          std::uint64_t bytes);
/// Multiplies matrices of Effort::size rows. If the size is 0, it first times a product of 256
/// rows. From that time it chooses the largest size whose runs together take about Effort::seconds.
/// `run` multiplies matrices with the given number of rows for the given seconds. Fails with
/// kUnsupported (E1054: the size is above `most`).
[[nodiscard]] Result<Measured> product_of_size(
    const Effort& effort, std::uint64_t most,
    const std::function<Result<Measured>(std::uint64_t rows, double seconds)>& run);

/// All cases, in the order of reports.
[[nodiscard]] std::vector<Case> cases();
/// The cases for one kind of device each; cases() returns all of them.
[[nodiscard]] std::span<const Case> cpu_cases();
[[nodiscard]] std::span<const Case> opencl_cases();
[[nodiscard]] std::span<const Case> cublas_cases();
[[nodiscard]] std::span<const Case> cuda_cases();

/// The id of the error for a case that this device or library does not support, such as fp64 in
/// OpenCL. A report leaves such a case out unless the user asked for its precision.
inline constexpr const char* kUnsupportedId = "E1055";

}  // namespace berth::bench
