// The protocol on the pipe from the forked NVML child. A frame has a length, a kind and a body. The
// vendor's driver runs in the child and may corrupt its memory. So the decoder bounds every size
// and checks every enumeration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/device.hpp"
#include "model/process.hpp"
#include "model/xid_event.hpp"

namespace berth::inventory::frames {

inline constexpr std::uint32_t kMostDevices = 1024;
inline constexpr std::uint32_t kMostBytes = 16U << 20U;  // maximum size of one frame

/// The library is loaded, and initialization begins.
struct Loaded {};
/// The driver is initialized; the number of devices follows in Ready.
struct Initialised {
  /// CLOCK_MONOTONIC, which is the same clock in parent and child.
  std::int64_t monotonic_nanoseconds = 0;
};
/// The number of devices. The child then sends one or more Device frames for each device.
struct Ready {
  std::int64_t monotonic_nanoseconds = 0;
  std::uint32_t devices = 0;
  std::string driver_version, cuda_version;
  std::uint32_t left_out = 0;  // number of additional devices, which are not read
};
/// The child ended before any device was read. `id` is an error id such as "E0301". `detail` is a
/// text for people and may be empty.
struct Failed {
  std::string id;
  std::string detail;
  std::uint32_t code = 0;  // error code of NVML; 0: no NVML error
};
/// One device. It is sent twice: first only with its identity, then with all values.
struct Device {
  std::uint32_t position = 0;
  bool complete = false;
  std::uint32_t refused = 0;  // NVML's error code when it refused the handle; 0: it gave a handle
  std::int64_t unix_milliseconds = 0;
  std::optional<model::Absence> no_process_list;
  bool late = false;  // the driver was slow: some values could not be read in time
  // In a sample: whether it also contains the throttle reasons, and whether it contains all
  // readings.
  bool has_throttle = false, has_all = false;
  std::uint32_t driver_microseconds = 0;
  model::Device device;  // what NVML reports about the device
  std::vector<model::DeviceProcess> processes;
};
/// All devices were sent.
struct Done {};
/// The driver reported an Xid while sampling.
struct Event {
  model::XidEvent xid;
};

using Frame = std::variant<Loaded, Initialised, Ready, Failed, Device, Done, Event>;

/// Encodes a frame, starting with its length, ready to write to the pipe.
[[nodiscard]] std::string encode(const Frame& frame);

/// Takes bytes as they arrive, and returns complete frames.
class Parser {
 public:
  void add(std::string_view bytes);
  /// The next complete frame; nullopt if more bytes are needed, and always after invalid data.
  [[nodiscard]] std::optional<Frame> next();
  /// Whether invalid data was received. Everything after it is ignored.
  [[nodiscard]] bool damaged() const { return damaged_; }

 private:
  std::string buffer_;
  std::size_t read_ = 0;
  bool damaged_ = false;
};

}  // namespace berth::inventory::frames
