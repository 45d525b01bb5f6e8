// Words and numbers that several verbs show: health, causes, pairs of sizes, short device names.
// The texts are safe to print, even if they contain untrusted text.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/device_use.hpp"  // for word_for(DeviceKind)
#include "model/snapshot.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// The value of Unattributed::cause if the process list could not be read.
inline constexpr std::string_view kListUnknown = "list_unknown";

/// The translated word for a health: "ok", "no answer", …. The other function returns its colour.
[[nodiscard]] std::string_view word_for(model::Health health);
[[nodiscard]] Style style_for(model::Health health);
/// The translated words for the reason of an absent reading: "needs two readings".
[[nodiscard]] std::string_view word_for(model::Absence why);
/// The words for an identifier in throttle_reasons or health_reasons: "temperature", "uncorrected
/// memory errors", "Xid 79". An unknown identifier is returned unchanged.
[[nodiscard]] std::string reason_words(std::string_view id);
/// Why a working device is slowed down, as single words joined by ", ", such as "heat". "idle" and
/// clocks that a user set do not count.
[[nodiscard]] std::string slowed_by(const model::Device& device);
/// The reasons for the device's health in words, joined by ", ".
[[nodiscard]] std::string health_words(const model::Device& device);
/// The words for Device::compute_mode.
[[nodiscard]] std::string mode_words(std::string_view mode);
/// The words for Unattributed::cause: "a zombie process holds it".
[[nodiscard]] std::string cause_words(std::string_view cause);
/// Whether unaccounted memory is normal for this driver, because it is the driver's
/// reserve, or the driver does not report processes' memory (Windows, WSL).
[[nodiscard]] bool is_usual(const model::Unattributed& memory);

/// The name without redundant parts ("NVIDIA ", "GeForce ", "(R)", "@ 2.40GHz").
[[nodiscard]] std::string short_name(const model::Device& device);
/// The device whose model name to show in place of this device's name. If a driver does not answer,
/// only the GPU's PCI name is known. Another GPU with the same PCI id then has a better name.
[[nodiscard]] const model::Device& namesake(const model::Snapshot& snapshot,
                                            const model::Device& device);
/// The command without the program's folder: "python3 train.py".
[[nodiscard]] std::string short_command(std::string_view command);
/// The sentence "34.0 GiB that no process accounts for: …".
[[nodiscard]] std::string unaccounted_words(const model::Unattributed& memory);
/// Used and total memory: "61.2 / 79.6 GiB". An unknown used size is "-". If the total is unknown,
/// the text is only the used size.
[[nodiscard]] std::string show_used(const model::Reading<std::uint64_t>& used,
                                    const model::Reading<std::uint64_t>& total);
/// A part of a size: "1.4 of 1.9 TiB".
[[nodiscard]] std::string show_part(std::uint64_t part, std::uint64_t whole);
/// A reading in percent: "92 %"; "-" if it is absent.
[[nodiscard]] std::string show_percent(const model::Reading<double>& reading);
/// An amount of energy: "612 J" or "1.9 Wh".
[[nodiscard]] std::string show_energy(std::uint64_t millijoules);
/// A price: "2.50 EUR", "0.0012 EUR"; "2.50" without a currency.
[[nodiscard]] std::string show_price(double amount, std::string_view currency);
/// A temperature: "64 °C"; "-" if it is absent.
[[nodiscard]] std::string show_celsius(const model::Reading<double>& reading);
[[nodiscard]] std::string show_age(double seconds);
/// A time as in RFC 3339, in UTC with milliseconds, for JSON; "" for a time before 1970.
[[nodiscard]] std::string show_time(std::int64_t unix_milliseconds);

/// The processes and users on a device.
struct Use {
  // Each user once, sorted by memory. An unknown user is "".
  std::vector<std::string> users;
  int processes = 0;
  const model::DeviceProcess* largest = nullptr;
};
/// Who uses each device, by Device::index. Devices that nobody uses are left out. The result points
/// into the snapshot.
[[nodiscard]] std::map<int, Use> uses_of(const model::Snapshot& snapshot);
/// The users in words: "lin, zhao"; "?" for unknown users.
[[nodiscard]] std::string show_users(const Use& use);

/// The leases on a device and on its partitions. Empty if there is no broker.
[[nodiscard]] std::vector<model::Holding> leases_of(const model::Device& device,
                                                    const model::Snapshot& snapshot);

/// Whether this entry means that the device or partition is drained: it gets no new jobs.
[[nodiscard]] bool is_drained(const model::Holding& one);
/// The number of the job with a lease, for people: "7_3". If the snapshot does not have it, the
/// plain id.
[[nodiscard]] std::string lease_number(std::uint64_t job, const model::Snapshot& snapshot);

[[nodiscard]] const model::Device* find_device(const model::Snapshot& snapshot, int index);
/// Counts names, in the order of their first occurrence.
struct Tally {
  std::vector<std::pair<std::string, int>> counts;
  void add(const std::string& name);
};
[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view with);

}  // namespace berth::output
