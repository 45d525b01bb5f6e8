#include "model/device_selector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "model/device_use.hpp"

namespace berth::model {
namespace {

constexpr std::size_t kLeastPrefix = 4;        // the shortest uuid prefix that is accepted
constexpr std::size_t kLongestSelector = 128;  // longer than any vendor's uuid

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

/// Parses the whole text as a number with at most `digits` digits.
std::optional<std::uint32_t> all_digits(std::string_view text, int base, std::size_t digits) {
  std::uint32_t number = 0;
  if (text.empty() || text.size() > digits) return std::nullopt;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Parses "0000:81:00.0", the driver's form "00000000:81:00.0", or "81:00.0".
std::optional<DeviceSelector> parse_pci(std::string_view text) {
  const auto parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  const auto last = split(parts.back(), '.');
  if (last.size() != 2) return std::nullopt;
  const auto bus = all_digits(parts[parts.size() - 2], 16, 2);
  const auto slot = all_digits(last[0], 16, 2);
  const auto function = all_digits(last[1], 8, 1);
  if (!bus || !slot || !function) return std::nullopt;
  DeviceSelector selector;
  selector.kind = DeviceSelector::Kind::kPci;
  if (parts.size() == 3) {
    selector.domain = all_digits(parts[0], 16, 8);
    if (!selector.domain) return std::nullopt;
  }
  selector.bus = *bus;
  selector.slot = *slot;
  selector.function = *function;
  return selector;
}

/// Parses a device's number ("0"), or a partition ("0:1"). Rejects "81:00", which is an incomplete
/// PCI address.
std::optional<DeviceSelector> parse_index(std::string_view text) {
  const auto parts = split(text, ':');
  const auto index = all_digits(parts[0], 10, 6);
  if (!index || parts.size() > 2) return std::nullopt;
  DeviceSelector selector;
  selector.index = static_cast<int>(*index);
  if (parts.size() == 1) return selector;
  selector.part = all_digits(parts[1], 10, 2);
  if (!selector.part || (parts[1].size() > 1 && parts[1].front() == '0')) return std::nullopt;
  return selector;
}

const Partition* find_partition(const Device& device, std::string_view uuid) {
  for (const Partition& part : device.partitions)
    if (!uuid.empty() && part.uuid == uuid) return &part;
  return nullptr;
}

bool uuid_like(std::string_view lowered) {
  return std::all_of(lowered.begin(), lowered.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '/' || c == '_';
  });
}

std::optional<DeviceSelector> parse_uuid(std::string_view text) {
  DeviceSelector selector;
  selector.kind = DeviceSelector::Kind::kUuid;
  selector.uuid = lower(text);
  std::string_view rest = selector.uuid;
  // older drivers write MIG-GPU-…, so remove both prefixes
  for (const std::string_view prefix : {"mig-", "gpu-"})
    if (starts_with(rest, prefix)) rest.remove_prefix(prefix.size());
  // A text of digits only is a device's number, not a uuid.
  const bool number = rest.find_first_not_of("0123456789") == std::string_view::npos &&
                      rest.size() == selector.uuid.size();
  if (rest.size() < kLeastPrefix || number || !uuid_like(selector.uuid)) return std::nullopt;
  return selector;
}

bool matches(const Device& device, const DeviceSelector& selector) {
  if (selector.kind == DeviceSelector::Kind::kIndex) return device.index == selector.index;
  if (selector.kind == DeviceSelector::Kind::kUuid)
    return !device.uuid.empty() && starts_with(lower(device.uuid), selector.uuid);
  const auto address = parse_pci(device.pci_address);
  return address && address->bus == selector.bus && address->slot == selector.slot &&
         address->function == selector.function &&
         (!selector.domain || address->domain.value_or(0) == *selector.domain);
}

std::vector<Selected> all_matches(const std::vector<Device>& devices,
                                  const DeviceSelector& selector) {
  std::vector<Selected> found;
  for (const Device& device : devices) {
    const bool whole = !selector.part;
    if (whole && matches(device, selector)) found.push_back({device.index, ""});
    for (const Partition& part : device.partitions)
      if (selector.part == part.index && matches(device, selector))
        found.push_back({device.index, part.uuid});
    if (selector.kind != DeviceSelector::Kind::kUuid) continue;
    for (const Partition& part : device.partitions)
      if (starts_with(lower(part.uuid), selector.uuid)) found.push_back({device.index, part.uuid});
  }
  return found;
}

std::string candidates(const std::vector<Device>& devices, const std::vector<Selected>& found) {
  std::string out;
  for (const Selected& one : found) {
    if (!out.empty()) out += ", ";
    const auto at = std::find_if(devices.begin(), devices.end(),
                                 [&](const Device& d) { return d.index == one.device; });
    out += std::to_string(one.device) + " (" +
           printable(!one.partition_uuid.empty() ? one.partition_uuid
                     : at->uuid.empty()          ? at->pci_address
                                                 : at->uuid) +
           ")";
  }
  return out;
}

}  // namespace

Result<DeviceSelector> parse_device_selector(std::string_view given) {
  const std::string_view word = trim(given);
  if (word.size() <= kLongestSelector) {
    if (const auto index = parse_index(word)) return *index;
    if (const auto pci = parse_pci(word)) return *pci;
    if (auto uuid = parse_uuid(word)) return std::move(*uuid);
  }
  return Error{ErrorCode::kInvalidArgument, "E0415",
               text("'{}' does not name a device", printable(word.substr(0, kLongestSelector))),
               text("give an index (0), a MIG partition (0:1), the beginning of a uuid (GPU-1a2b), "
                    "or a PCI address (81:00.0); they are shown by: berth ls --details")};
}

Result<Selected> select_device(const std::vector<Device>& devices, std::string_view given) {
  const auto selector = parse_device_selector(given);
  if (!selector) return selector.error();
  const auto found = all_matches(devices, *selector);
  const std::string shown = printable(trim(given));
  if (found.empty())
    return Error{ErrorCode::kNotFound, "E0413", text("there is no device {} here", shown),
                 text("devices here: {}", list_choices(devices)) + "\nberth ls"};
  if (found.size() > 1)
    return Error{ErrorCode::kInvalidArgument, "E0414",
                 text("{} matches several devices: {}", shown, candidates(devices, found)),
                 text("give more of the uuid, or the index")};
  return found.front();
}

Result<std::vector<Selected>> select_devices(const std::vector<Device>& devices,
                                             const std::vector<std::string>& lists) {
  std::vector<Selected> chosen;
  for (const std::string& list : lists) {
    for (const std::string_view word : split(list, ',')) {
      if (trim(word).empty() && list.find(',') != std::string::npos) {
        Error error = parse_device_selector("").error();
        error.message =
            text("'{}' is not a list of devices: an entry before or after a comma is empty",
                 printable(list.substr(0, kLongestSelector)));
        return error;
      }
      const auto one = select_device(devices, word);
      if (!one) return one.error();
      if (std::find(chosen.begin(), chosen.end(), *one) == chosen.end()) chosen.push_back(*one);
    }
  }
  if (chosen.empty()) return parse_device_selector("").error();
  return chosen;
}

std::string unit_name(const Device& device, std::string_view partition_uuid) {
  std::string out = std::to_string(device.index);
  if (const Partition* part = find_partition(device, partition_uuid))
    out += ":" + std::to_string(part->index);
  return out;
}

std::string unit_words(const Device& device, std::string_view partition_uuid) {
  std::string what = printable(device.name);
  if (const Partition* part = find_partition(device, partition_uuid))
    what = text("{} of {}", printable(part->name.empty() ? part->uuid : part->name), what);
  return fmt::format("{} {} ({})", word_for(device.kind), unit_name(device, partition_uuid), what);
}

std::string list_choices(const std::vector<Device>& devices) {
  if (devices.empty()) return std::string(tr("none"));
  std::string out;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    out += (i == 0 ? "" : ", ") + std::to_string(devices[i].index);
    if (i + 1 == devices.size() || devices[i + 1].kind != devices[i].kind)
      out += " (" + std::string(word_for(devices[i].kind)) + ")";
  }
  return out;
}

}  // namespace berth::model
