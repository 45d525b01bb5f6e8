#include "bench/case.hpp"

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

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::span<const Case> some :
       {cpu_cases(), opencl_cases(), cublas_cases(), cuda_cases()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace berth::bench
