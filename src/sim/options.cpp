#include "sim/options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/spelling.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "sim/machine_check.hpp"

namespace berth::sim {
namespace {

namespace wire = berth::wire::sim;

constexpr std::array<std::string_view, wire::kFaultKinds> kFaultWords{{
#define BERTH_ROW(name, word) word,
    BERTH_SIM_FAULTS(BERTH_ROW)
#undef BERTH_ROW
}};

Error bad_fault(std::string_view fault, const std::string& why, const std::string& near = "") {
  return {ErrorCode::kInvalidArgument, "E0607", text("--fault {}: {}", printable(fault), why),
          (near.empty() ? "" : text("did you mean {}?", near) + "   ") +
              "berth sim --machine lab-4x3090 --fault lost:3@10 --fault slow=20ms -- berth"};
}

struct Reason {
  std::string_view name;
  std::uint64_t bits;  // bits of nvmlClocksEventReason* in nvml.h
};
constexpr std::array<Reason, 5> kReasons{{{"hw_thermal", 0x48},
                                          {"sw_thermal", 0x20},
                                          {"hw_slowdown", 0x08},
                                          {"power_brake", 0x88},
                                          {"sw_power_cap", 0x04}}};

template <typename T>
std::optional<std::uint64_t> taken(const Result<T>& result) {
  return result ? std::optional(static_cast<std::uint64_t>(*result)) : std::nullopt;
}

/// Parses a duration. Microseconds are also accepted, because driver calls can be that short.
std::optional<std::uint64_t> slow_value(std::string_view given) {
  if (given.size() > 2 && given.substr(given.size() - 2) == "us") {
    const auto us = taken(parse_integer(given.substr(0, given.size() - 2), 0, 1'000'000'000));
    return us ? std::optional(*us * 1000) : std::nullopt;
  }
  const auto time = parse_duration(given);
  if (!time || time->count() > 3'600'000) return std::nullopt;
  return static_cast<std::uint64_t>(time->count()) * 1'000'000;
}

std::optional<std::uint64_t> throttle_value(std::string_view given) {
  for (const Reason& reason : kReasons)
    if (reason.name == given) return reason.bits;
  return std::nullopt;
}

std::optional<std::uint64_t> remap_value(std::string_view given) {
  if (given == "pending") return wire::kRemapPending;
  if (given == "failed") return wire::kRemapFailed;
  const auto count = parse_integer(given, 1, 512);
  return count ? std::optional(static_cast<std::uint64_t>(*count)) : std::nullopt;
}

/// The given value, or the default if none was given. nullopt if the value is invalid for this kind
/// of fault.
std::optional<std::uint64_t> value_of(wire::FaultKind kind,
                                      const std::optional<std::string_view>& given) {
  switch (kind) {
    case wire::kSlow:
      return slow_value(given.value_or("20ms"));
    case wire::kXid:
      return taken(parse_integer(given.value_or("79"), 1, 999));
    case wire::kEcc:
      return taken(parse_integer(given.value_or("1"), 1, 1'000'000'000));
    case wire::kZombie:
      return taken(parse_size(given.value_or("4GiB")));
    case wire::kRemap:
      return remap_value(given.value_or("pending"));
    case wire::kThrottle:
      return throttle_value(given.value_or("hw_thermal"));
    case wire::kHung:
      if (given && *given != "all") return std::nullopt;
      return given ? wire::kHungAll : 0;
    case wire::kMig:
      if (given && *given != "make" && *given != "remove") return std::nullopt;
      return given == "remove" ? wire::kMigRemove : wire::kMigMake;
    case wire::kNoPermission:
      if (given && *given != "memory") return std::nullopt;
      return given ? wire::kNoPermissionMemory : 0;
    default:
      return given ? std::nullopt : std::optional<std::uint64_t>(0);
  }
}

/// Cuts `text` at the last `mark`, and returns the part after it.
std::optional<std::string_view> cut(std::string_view& text, char mark) {
  const auto at = text.rfind(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view tail = text.substr(at + 1);
  text = text.substr(0, at);
  return tail;
}

/// Whether the device can show the fault. simulator/nvml_health.cpp and sysfs_tree.cpp must
/// implement the same faults.
bool shows(wire::FaultKind kind, const Machine& machine, std::size_t device) {
  const MachineDevices& group = group_of(machine, device);
  if (kind == wire::kThrottle || kind == wire::kZombie) return true;
  if (!machine.driver || group.vendor != "nvidia") return false;
  if (kind == wire::kMig) return !group.mig_profiles.empty();
  if (kind != wire::kEcc && kind != wire::kRemap) return true;
  constexpr std::uint32_t kAmpere = 7;
  const std::string_view reading = kind == wire::kEcc ? "ecc" : "remap";
  const bool answers = std::find(group.unsupported.begin(), group.unsupported.end(), reading) ==
                       group.unsupported.end();
  return group.ecc && answers &&
         (kind == wire::kEcc || nvidia_architecture(group.architecture).value_or(0) >= kAmpere);
}

std::string no_such_device(std::string_view given, std::size_t devices) {
  return text("there is no device '{}'; devices of this machine: {}", printable(given), devices);
}

}  // namespace

Result<std::uint64_t> parse_seconds(std::string_view given) {
  const std::string_view digits =
      !given.empty() && given.back() == 's' ? given.substr(0, given.size() - 1) : given;
  double seconds = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), seconds,
                                              std::chars_format::fixed);
  if (problem != std::errc{} || end != digits.data() + digits.size() ||
      !(seconds >= 0 && seconds <= 1e8))
    return Error{ErrorCode::kInvalidArgument, "E0609",
                 text("'{}' is not a number of seconds", printable(given)), "berth sim --at 12.5"};
  return static_cast<std::uint64_t>(std::llround(seconds * 1e3)) * 1'000'000;
}

Result<Fault> parse_fault(std::string_view given, std::size_t devices) {
  std::string_view rest = given;
  const auto value = cut(rest, '='), seconds = cut(rest, '@'), device = cut(rest, ':');
  Fault fault;
  const auto word = std::find(kFaultWords.begin(), kFaultWords.end(), rest);
  if (word == kFaultWords.end())
    return bad_fault(given,
                     text("there is no fault '{}'; possible: {}", printable(rest),
                          fmt::format("{}", fmt::join(kFaultWords, ", "))),
                     nearest(rest, {kFaultWords.begin(), kFaultWords.end()}));
  fault.kind = static_cast<wire::FaultKind>(word - kFaultWords.begin());
  if (device) {
    const auto index = parse_integer(*device, 0, wire::kMaxDevices);
    if (!index || static_cast<std::size_t>(*index) >= devices)
      return bad_fault(given, no_such_device(*device, devices));
    fault.device = static_cast<std::uint32_t>(*index);
  }
  if (fault.device && (fault.kind == wire::kMismatch || fault.kind == wire::kNoDriver))
    return bad_fault(given, text("'{}' is a fault of the driver, not of a device", rest));
  if (seconds) {
    const auto from = parse_seconds(*seconds);
    if (!from) return bad_fault(given, from.error().message);
    fault.from_ns = *from;
  }
  const auto number = value_of(fault.kind, value);
  if (!number)
    return bad_fault(given, text("'{}' is not a valid value for the fault '{}'",
                                 printable(value.value_or("")), rest));
  fault.value = *number;
  return fault;
}

Status check_effect(std::string_view given, const Fault& fault, const Machine& machine) {
  bool any = false;
  for (std::size_t i = 0; i < device_count(machine); ++i)
    any = any || ((!fault.device || *fault.device == i) && shows(fault.kind, machine, i));
  if (fault.kind == wire::kMismatch || fault.kind == wire::kNoDriver)
    any = machine.driver.has_value();
  if (any) return Done{};
  if (!machine.driver) return bad_fault(given, text("this machine has no NVIDIA driver"));
  if (fault.kind == wire::kEcc) return bad_fault(given, text("the device has no ECC memory"));
  if (fault.kind == wire::kRemap)
    return bad_fault(given, text("the device does not remap memory rows"));
  return bad_fault(given, text("the device does not support this fault"));
}

Result<Attached> parse_attached(std::string_view given, std::size_t devices) {
  const auto fail = [&](const std::string& why) {
    return Error{ErrorCode::kInvalidArgument, "E0608",
                 text("--attach {}: {}", printable(given), why), "berth sim --attach 4711:0:8GiB"};
  };
  const auto parts = split(given, ':');
  if (parts.size() != 3) return fail(text("must be PID:DEVICE:SIZE"));
  const auto pid =
      parse_integer(parts[0], 1, 4'194'304);  // the greatest pid that the kernel allows
  if (!pid) return fail(text("'{}' is not a process id", printable(parts[0])));
  const auto device = parse_integer(parts[1], 0, wire::kMaxDevices);
  if (!device || static_cast<std::size_t>(*device) >= devices)
    return fail(no_such_device(parts[1], devices));
  const auto size = parse_size(parts[2]);
  if (!size) return fail(size.error().message);
  return Attached{*pid, static_cast<std::uint32_t>(*device), *size};
}

}  // namespace berth::sim
