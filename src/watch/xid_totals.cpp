#include "watch/xid_totals.hpp"

namespace berth::watch {
namespace {

/// Removes the PCI function, which the kernel log does not name: "0000:81:00" for "0000:81:00.0".
std::string place_of(const std::string& address) {
  return address.substr(0, address.rfind('.'));
}

}  // namespace

void XidTotals::add(const model::XidEvent& event, std::int64_t start_unix_milliseconds) {
  constexpr std::size_t kMostDevices = 256, kMostCodes = 256;
  const std::string place = place_of(event.device);
  if (place.empty() || (devices.size() >= kMostDevices && !devices.contains(place))) return;
  auto& codes = devices[place];
  if (event.code == model::kXidsReported ||
      (codes.size() >= kMostCodes && !codes.contains(event.code)))
    return;
  Seen& seen = codes[event.code];
  const std::size_t source =
      event.device == place ? 1 : 0;  // an address without function is from the kernel log
  if (event.unix_milliseconds >= start_unix_milliseconds) ++seen.counts.at(source);
  seen.last_unix_milliseconds = std::max(seen.last_unix_milliseconds, event.unix_milliseconds);
}

const std::map<int, XidTotals::Seen>* XidTotals::of(const model::Device& device) const {
  static const std::map<int, Seen> none;
  const auto found = devices.find(place_of(device.pci_address));
  if (found != devices.end()) return &found->second;
  return has_kernel_log && !device.pci_address.empty() ? &none : nullptr;
}

}  // namespace berth::watch
