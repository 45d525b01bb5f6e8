// What the forked NVML child tells its parent: frames of length, kind and body over a pipe. A
// vendor's driver runs in the child and may have scribbled over anything, so the decoder believes
// nothing: every size is bounded and every enumeration checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/device.hpp"
#include "model/process.hpp"

namespace berth::inventory::frames {

inline constexpr std::uint32_t kMostDevices = 128;
inline constexpr std::uint32_t kMostBytes = 16U << 20U;  // of one frame

/// The library is open; initialisation begins.
struct Loaded {};
/// The driver is initialised; how many devices it has follows.
struct Initialised {
  std::int64_t monotonic_nanoseconds = 0;  // when: CLOCK_MONOTONIC is the same for both
};
/// That many devices follow.
struct Ready {
  std::int64_t monotonic_nanoseconds = 0;
  std::uint32_t devices = 0;
  std::string driver_version, cuda_version;
};
/// It ended before there were devices. `id`: E0301 and so on; `detail`: for people, may be empty.
struct Failed {
  std::string id;
  std::string detail;
  std::uint32_t code = 0;  // NVML's, 0 none
};
/// One device: first with its identity alone, then complete.
struct Device {
  std::uint32_t position = 0;
  bool complete = false;
  std::uint32_t refused = 0;  // NVML's code where there is no handle to it
  std::int64_t unix_milliseconds = 0;
  std::optional<model::Absence> no_process_list;
  bool late = false;     // a slow driver: there was no time to ask for everything
  model::Device device;  // what NVML knows of it
  std::vector<model::DeviceProcess> processes;
};
/// All devices were sent.
struct Done {};

using Frame = std::variant<Loaded, Initialised, Ready, Failed, Device, Done>;

/// With its length in front, ready to be written.
[[nodiscard]] std::string encode(const Frame& frame);

/// Takes bytes as they come and yields whole frames.
class Parser {
 public:
  void add(std::string_view bytes);
  /// The next whole frame; nullopt where more bytes are needed, and for ever after damage.
  [[nodiscard]] std::optional<Frame> next();
  /// The bytes made no sense; nothing after that is believed.
  [[nodiscard]] bool damaged() const { return damaged_; }

 private:
  std::string buffer_;
  std::size_t read_ = 0;
  bool damaged_ = false;
};

}  // namespace berth::inventory::frames
