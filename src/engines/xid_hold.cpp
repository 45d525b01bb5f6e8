#include "engines/xid_hold.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "doctor/knowledge/knowledge.hpp"

namespace berth::engines {
namespace {

/// Addresses in the kernel log lack the PCI function: "0000:01:00".
std::string without_function(const std::string& address) {
  return address.substr(0, address.rfind('.'));
}

bool is_fatal(int code) {
  const auto xids = doctor::known_xids();
  const auto found = std::find_if(xids.begin(), xids.end(),
                                  [&](const doctor::Xid& one) { return one.code == code; });
  return found != xids.end() && std::string_view(found->severity) == "fatal";
}

}  // namespace

bool XidHold::add(const std::vector<model::XidEvent>& events) {
  bool any = false;
  for (const model::XidEvent& one : events) {
    if (!is_fatal(one.code)) continue;
    held_[without_function(one.device)] = {one.code, looks_};
    any = true;
  }
  return any;
}

void XidHold::apply(std::vector<KubeUnit>& units) {
  std::map<std::string, bool> unwell;
  for (const KubeUnit& unit : units)
    if (!unit.healthy) unwell[without_function(unit.pci)] = true;
  for (KubeUnit& unit : units) {
    const auto held = held_.find(without_function(unit.pci));
    if (held == held_.end() || !unit.healthy) continue;
    unit.healthy = false;
    unit.why = fmt::format("Xid {}", held->second.code);
    unit.fault = fmt::format("xid-{}", held->second.code);
  }
  for (auto held = held_.begin(); held != held_.end();) {
    // count only scans without a fault: start again while the GPU is faulty
    if (unwell.contains(held->first)) held->second.left = looks_ + 1;
    held = --held->second.left <= 0 ? held_.erase(held) : std::next(held);
  }
}

}  // namespace berth::engines
