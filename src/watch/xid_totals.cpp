#include <algorithm>

#include "watch/frame.hpp"

namespace berth::watch {
namespace {

/// "0000:81:00" of "0000:81:00.0": the kernel log has no function.
std::string place_of(const std::string& address) {
  return address.substr(0, address.rfind('.'));
}

}  // namespace

void XidTotals::add(const model::XidEvent& event, std::int64_t start_unix_milliseconds) {
  constexpr std::int64_t kSameMilliseconds = 2000;
  constexpr std::size_t kMostDevices = 256, kMostCodes = 256;
  const std::string place = place_of(event.device);
  if (place.empty() || (devices.size() >= kMostDevices && !devices.contains(place))) return;
  auto& codes = devices[place];
  if (event.code == model::kXidsReported ||
      (codes.size() >= kMostCodes && !codes.contains(event.code)))
    return;
  Seen& seen = codes[event.code];
  const bool is_same =
      seen.count > 0 && event.unix_milliseconds - seen.last_unix_milliseconds < kSameMilliseconds;
  if (!is_same && event.unix_milliseconds >= start_unix_milliseconds) ++seen.count;
  seen.last_unix_milliseconds = std::max(seen.last_unix_milliseconds, event.unix_milliseconds);
}

const std::map<int, XidTotals::Seen>* XidTotals::of(const model::Device& device) const {
  static const std::map<int, Seen> none;
  const auto found = devices.find(place_of(device.pci_address));
  if (found != devices.end()) return &found->second;
  return has_kernel_log && !device.pci_address.empty() ? &none : nullptr;
}

}  // namespace berth::watch
