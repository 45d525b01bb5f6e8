#include "bench/case.hpp"

#include "base/text.hpp"
#include "bench/timing.hpp"

namespace berth::bench {

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::kGemm:
      return "gemm";
    case Kind::kMemory:
      return "memory";
    case Kind::kCopy:
      return "copy";
    case Kind::kPeer:
      return "peer";
    case Kind::kLaunch:
      return "launch";
  }
  return "";
}

std::string_view name(Backend backend) {
  return backend == Backend::kCpu ? "cpu" : backend == Backend::kOpenCl ? "opencl" : "cuda";
}

std::optional<Kind> kind_of(std::string_view name_given) {
  for (const Kind kind : {Kind::kGemm, Kind::kMemory, Kind::kCopy, Kind::kPeer, Kind::kLaunch})
    if (name(kind) == name_given) return kind;
  return std::nullopt;
}

std::uint64_t rows_that_fit(std::uint64_t most, std::uint64_t element_bytes, std::uint64_t bytes) {
  while (most > 256 && 3 * element_bytes * most * most > bytes) most /= 2;
  return most;
}

Result<Measured> product_of_size(
    const Effort& effort, std::uint64_t most,
    const std::function<Result<Measured>(std::uint64_t rows, double seconds)>& run) {
  std::uint64_t rows = effort.size;
  if (rows == 0) {
    const auto probe = run(256, 0);
    if (!probe) return probe;
    rows = rows_for(statistics_of(probe->seconds).median, effort.seconds, most);
  }
  if (rows > most)
    return Error{ErrorCode::kUnsupported, "E1054",
                 text("size {} does not fit the device's memory", rows), "berth ls --details"};
  return run(rows, effort.seconds);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::span<const Case> some :
       {cpu_cases(), opencl_cases(), cublas_cases(), cuda_cases()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace berth::bench
