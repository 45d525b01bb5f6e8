// Cases for NVIDIA's GPUs through CUDA's driver: memory, copies from and to the host and other
// GPUs, and launch latency. cublas.cpp has the products.
#include "bench/cuda.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::bench {
namespace {

constexpr std::uint64_t kCopyBytes = 128 << 20, kMemoryBytes = 512 << 20, kLeastBytes = 4096;
constexpr const char* kDriver = "libcuda.so.1";

/// A kernel that does nothing, as PTX, which every driver compiles for its GPU.
constexpr const char* kNothing =
    ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing()\n{\n  ret;\n}\n";

std::vector<unsigned char> pattern(std::uint64_t bytes) {
  std::vector<unsigned char> values(bytes);
  for (std::uint64_t i = 0; i < bytes; ++i) values[i] = static_cast<unsigned char>(i * 31 >> 3);
  return values;
}

double naive_median(std::vector<double> naive) {
  if (naive.size() > 1) naive.erase(naive.begin());
  return statistics_of(std::move(naive)).median;
}

/// The number of bytes to copy: --size if it was given. If not: `usual`, or less if the device has
/// too little memory. Fails with kUnsupported (E1054) if --size does not fit.
Result<std::uint64_t> bytes_for(const CudaSession& session, const Effort& effort,
                                std::uint64_t usual, std::uint64_t copies) {
  const std::uint64_t most = session.usable_bytes() / copies;
  const std::uint64_t bytes = effort.size == 0 ? std::min(usual, most) : effort.size;
  if (bytes > most || bytes < kLeastBytes)
    return Error{ErrorCode::kUnsupported, "E1054",
                 text("size {} does not fit the device's memory", bytes), "berth ps"};
  return bytes;
}

Result<Measured> finished(CudaSession& session, CUdeviceptr result, Measured measured,
                          const std::vector<unsigned char>& wanted, std::vector<double> naive) {
  std::vector<unsigned char> back(wanted.size());
  if (auto copied = session.read(result, back.data(), back.size()); !copied)
    return std::move(copied).error();
  measured.size = wanted.size();
  measured.naive_seconds = naive_median(std::move(naive));
  measured.max_error = back == wanted ? 0 : 1;
  measured.allowed_error = 0;
  return measured;
}

/// Copies inside the device's memory. Each byte is read and written.
Result<Measured> memory_copy(const Target& target, const Effort& effort) {
  CudaSession session;
  if (auto opened = session.open(target); !opened) return std::move(opened).error();
  const auto bytes = bytes_for(session, effort, kMemoryBytes, 2);
  if (!bytes) return bytes.error();
  const auto data = pattern(*bytes);
  const auto from = session.memory_with(data.data(), *bytes);
  if (!from) return from.error();
  const auto to = session.memory(*bytes);
  if (!to) return to.error();
  std::vector<double> naive;
  Measured measured;
  measured.seconds = repeat(effort.seconds, [&] {
    return session.timed(
        [&] { return session.driver().cuMemcpyDtoDAsync_v2(*to, *from, *bytes, session.stream()); },
        naive);
  });
  if (measured.seconds.empty()) return session.failure("cuMemcpyDtoDAsync");
  measured.library = kDriver;
  measured.work = 2.0 * static_cast<double>(*bytes);
  return finished(session, *to, std::move(measured), data, std::move(naive));
}

/// Copies between host and device. Times are measured on the host, because copying pageable memory
/// includes work that the device does not see.
template <bool to_device, bool pinned>
Result<Measured> copy(const Target& target, const Effort& effort) {
  CudaSession session;
  if (auto opened = session.open(target); !opened) return std::move(opened).error();
  const auto bytes = bytes_for(session, effort, kCopyBytes, 1);
  if (!bytes) return bytes.error();
  auto data = pattern(*bytes);
  unsigned char* host = data.data();
  if (pinned) {
    const auto made = session.pinned(*bytes);
    if (!made) return made.error();
    host = static_cast<unsigned char*>(*made);
    std::copy(data.begin(), data.end(), host);
  }
  const auto device = session.memory_with(data.data(), *bytes);
  if (!device) return device.error();
  const CudaDriver& call = session.driver();
  CUresult problem = CUDA_SUCCESS;
  std::vector<double> naive;
  Measured measured;
  measured.seconds = repeat(effort.seconds, [&] {
    return seconds_of([&] {
      naive.push_back(seconds_of([&] {
        problem = to_device ? call.cuMemcpyHtoDAsync_v2(*device, host, *bytes, session.stream())
                            : call.cuMemcpyDtoHAsync_v2(host, *device, *bytes, session.stream());
      }));
      if (problem == CUDA_SUCCESS) problem = call.cuStreamSynchronize(session.stream());
    });
  });
  if (problem != CUDA_SUCCESS) return session.failure("cuMemcpyAsync", problem);
  measured.library = kDriver;
  measured.work = static_cast<double>(*bytes);
  const std::vector<unsigned char> on_host(host, host + *bytes);
  return finished(session, *device, std::move(measured), on_host, std::move(naive));
}

Result<Measured> launch(const Target& target, const Effort& effort) {
  CudaSession session;
  if (auto opened = session.open(target); !opened) return std::move(opened).error();
  const CudaDriver& call = session.driver();
  CUmodule module = nullptr;
  CUfunction nothing = nullptr;
  CUresult problem = call.cuModuleLoadData(&module, kNothing);
  if (problem == CUDA_SUCCESS) problem = call.cuModuleGetFunction(&nothing, module, "nothing");
  if (problem != CUDA_SUCCESS) return session.failure("cuModuleLoadData", problem);
  std::vector<double> naive;
  Measured measured;
  measured.seconds = repeat(effort.seconds, [&] {
    return seconds_of([&] {
      naive.push_back(seconds_of([&] {
        problem =
            call.cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, session.stream(), nullptr, nullptr);
      }));
      if (problem == CUDA_SUCCESS) problem = call.cuStreamSynchronize(session.stream());
    });
  });
  if (problem != CUDA_SUCCESS) return session.failure("cuLaunchKernel", problem);
  measured.library = kDriver;
  measured.naive_seconds = naive_median(std::move(naive));
  return measured;
}

/// Copies to another GPU: directly if the driver allows it, or through the host's memory if not.
Result<Measured> peer_copy(const Target& target, const Effort& effort) {
  CudaSession session;
  if (auto opened = session.open(target); !opened) return std::move(opened).error();
  CUdevice peer = CU_DEVICE_INVALID;
  const auto context = session.context_of(target.peer_pci_address, peer);
  if (!context) return context.error();
  const auto bytes = bytes_for(session, effort, kMemoryBytes, 1);
  if (!bytes) return bytes.error();
  const CudaDriver& call = session.driver();
  int direct = 0;
  CUresult problem = call.cuDeviceCanAccessPeer(&direct, session.device(), peer);
  if (problem == CUDA_SUCCESS && direct != 0) problem = call.cuCtxEnablePeerAccess(*context, 0);
  if (problem != CUDA_SUCCESS) return session.failure("cuCtxEnablePeerAccess", problem);
  const auto data = pattern(*bytes);
  const auto from = session.memory_with(data.data(), *bytes);
  if (!from) return from.error();
  session.make_current(*context);
  const auto to = session.memory(*bytes);
  session.make_current(session.context());
  if (!to) return to.error();
  std::vector<double> naive;
  Measured measured;
  measured.seconds = repeat(effort.seconds, [&] {
    return session.timed(
        [&] {
          return call.cuMemcpyPeerAsync(*to, *context, *from, session.context(), *bytes,
                                        session.stream());
        },
        naive);
  });
  if (measured.seconds.empty()) return session.failure("cuMemcpyPeerAsync");
  measured.library = direct != 0 ? kPeerAccess : kThroughHost;
  measured.work = static_cast<double>(*bytes);
  session.make_current(*context);
  return finished(session, *to, std::move(measured), data, std::move(naive));
}

constexpr auto kCases = std::to_array<Case>({
    {"memory.copy", Kind::kMemory, Backend::kCuda, "", memory_copy},
    {"copy.to.pageable", Kind::kCopy, Backend::kCuda, "", copy<true, false>},
    {"copy.to.pinned", Kind::kCopy, Backend::kCuda, "", copy<true, true>},
    {"copy.from.pageable", Kind::kCopy, Backend::kCuda, "", copy<false, false>},
    {"copy.from.pinned", Kind::kCopy, Backend::kCuda, "", copy<false, true>},
    {"peer.to", Kind::kPeer, Backend::kCuda, "", peer_copy},
    {"launch", Kind::kLaunch, Backend::kCuda, "", launch},
});

Error unusable(std::string why) {
  return {ErrorCode::kUnavailable, "E1071", text("CUDA cannot be used: {}", printable(why)),
          "berth doctor"};
}

}  // namespace

std::span<const Case> cuda_cases() {
  return kCases;
}

Status CudaSession::open(const Target& target) {
  void* handle = ::dlopen(kDriver, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = ::dlerror();  // NOLINT(concurrency-mt-unsafe): one thread
    return unusable(why != nullptr ? why : kDriver);
  }
#define BERTH_CUDA_FUNCTION(name, parameters)                                      \
  driver_.name = reinterpret_cast<CUresult(*) parameters>(::dlsym(handle, #name)); \
  if (driver_.name == nullptr) return unusable(kDriver + std::string(": " #name));
#include "bench/cuda_functions.inc"
#undef BERTH_CUDA_FUNCTION
  problem_ = driver_.cuInit(0);
  if (problem_ != CUDA_SUCCESS) return failure("cuInit");
  int version = 0;
  problem_ = driver_.cuDriverGetVersion(&version);
  if (problem_ != CUDA_SUCCESS) return failure("cuDriverGetVersion");
  driver_major_ = version / 1000;
  auto context = context_of(target.pci_address, device_);
  if (!context) return std::move(context).error();
  context_ = *context;
  make_current(context_);
  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
  constexpr int kMajor = 75, kMinor = 76;
  int major = 0;
  int minor = 0;
  if (driver_.cuDeviceGetAttribute(&major, kMajor, device_) == CUDA_SUCCESS &&
      driver_.cuDeviceGetAttribute(&minor, kMinor, device_) == CUDA_SUCCESS)
    capability_ = 10 * major + minor;
  problem_ = driver_.cuStreamCreate(&stream_, 0);
  for (CUevent* event : {&start_, &end_})
    if (problem_ == CUDA_SUCCESS) problem_ = driver_.cuEventCreate(event, 0);
  if (problem_ != CUDA_SUCCESS) return failure("cuStreamCreate");
  return Done{};
}

Result<CUcontext> CudaSession::context_of(const std::string& pci_address, CUdevice& device) {
  if (driver_.cuDeviceGetByPCIBusId(&device, pci_address.c_str()) != CUDA_SUCCESS)
    return unusable(text("CUDA does not find the GPU at {}", pci_address));
  CUcontext context = nullptr;
  problem_ = driver_.cuDevicePrimaryCtxRetain(&context, device);
  if (problem_ != CUDA_SUCCESS) return failure("cuDevicePrimaryCtxRetain");
  if (context_ != nullptr) make_current(context_);
  return context;
}

std::uint64_t CudaSession::usable_bytes() const {
  std::size_t left = 0;
  std::size_t all = 0;
  return driver_.cuMemGetInfo_v2(&left, &all) == CUDA_SUCCESS ? left / 2 : 0;
}

Result<CUdeviceptr> CudaSession::memory(std::uint64_t bytes) {
  CUdeviceptr made = 0;
  problem_ = driver_.cuMemAlloc_v2(&made, bytes);
  if (problem_ != CUDA_SUCCESS) return failure("cuMemAlloc");
  return made;
}

Result<CUdeviceptr> CudaSession::memory_with(const void* data, std::uint64_t bytes) {
  auto made = memory(bytes);
  if (!made) return made;
  problem_ = driver_.cuMemcpyHtoD_v2(*made, data, bytes);
  if (problem_ != CUDA_SUCCESS) return failure("cuMemcpyHtoD");
  return made;
}

Status CudaSession::read(CUdeviceptr from, void* to, std::uint64_t bytes) {
  problem_ = driver_.cuMemcpyDtoH_v2(to, from, bytes);
  if (problem_ != CUDA_SUCCESS) return failure("cuMemcpyDtoH");
  return Done{};
}

Result<void*> CudaSession::pinned(std::uint64_t bytes) {
  void* made = nullptr;
  problem_ = driver_.cuMemHostAlloc(&made, bytes, 0);
  if (problem_ != CUDA_SUCCESS) return failure("cuMemHostAlloc");
  return made;
}

Error CudaSession::failure(const char* call, CUresult problem) const {
  const char* name = nullptr;
  if (driver_.cuGetErrorName(problem, &name) != CUDA_SUCCESS || name == nullptr) name = "?";
  if (problem == CUDA_ERROR_OUT_OF_MEMORY)
    return {ErrorCode::kUnsupported, "E1054",
            text("the device does not have enough free memory ({0}: {1})", call, problem),
            "berth ps"};
  return unusable(fmt::format("{}: {} ({})", call, printable(name), problem));
}

}  // namespace berth::bench
