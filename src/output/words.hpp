// Words and numbers that several verbs display: health, causes, pairs of sizes, short device names.
// The returned strings are printable, even if they contain untrusted text.
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

/// The health in words, translated: "ok", "no answer", …. The second function returns its colour.
[[nodiscard]] std::string_view word_for(model::Health health);
[[nodiscard]] Style style_for(model::Health health);
/// Why a reading is absent, translated: "needs two readings".
[[nodiscard]] std::string_view word_for(model::Absence why);
/// An identifier from throttle_reasons or health_reasons in words: "temperature", "uncorrected
/// memory errors", "Xid 79". Returns an unknown identifier unchanged.
[[nodiscard]] std::string reason_words(std::string_view id);
/// The throttle reasons that slow down a working device, one word each ("heat"), joined by ", ".
/// "idle" and configured clocks do not count.
[[nodiscard]] std::string slowed_by(const model::Device& device);
/// The reasons for the device's health in words, joined by ", ".
[[nodiscard]] std::string health_words(const model::Device& device);
/// Device::compute_mode in words.
[[nodiscard]] std::string mode_words(std::string_view mode);
/// Unattributed::cause in words: "a zombie process holds it".
[[nodiscard]] std::string cause_words(std::string_view cause);
/// Whether unaccounted memory is normal for this driver: its own reserve, or processes whose memory
/// it does not report (Windows, WSL).
[[nodiscard]] bool is_usual(const model::Unattributed& memory);

/// The name without redundant parts ("NVIDIA ", "GeForce ", "(R)", "@ 2.40GHz").
[[nodiscard]] std::string short_name(const model::Device& device);
/// The device whose model name to show instead of the name of this device. If a GPU's driver does
/// not answer, only its PCI name is known; another GPU with the same PCI id has the better name.
[[nodiscard]] const model::Device& namesake(const model::Snapshot& snapshot,
                                            const model::Device& device);
/// The command without the program's folder: "python3 train.py".
[[nodiscard]] std::string short_command(std::string_view command);
/// The sentence "34.0 GiB that no process accounts for: …".
[[nodiscard]] std::string unaccounted_words(const model::Unattributed& memory);
/// Used and total memory: "61.2 / 79.6 GiB"; "- / 79.6 GiB"; "-" if unknown.
[[nodiscard]] std::string show_used(const model::Reading<std::uint64_t>& used,
                                    const model::Reading<std::uint64_t>& total);
/// "1.4 of 1.9 TiB".
[[nodiscard]] std::string show_part(std::uint64_t part, std::uint64_t whole);
/// "92 %", "-".
[[nodiscard]] std::string show_percent(const model::Reading<double>& reading);
/// "612 J", "1.9 Wh".
[[nodiscard]] std::string show_energy(std::uint64_t millijoules);
/// "2.50 EUR", "0.0012 EUR", "2.50".
[[nodiscard]] std::string show_price(double amount, std::string_view currency);
/// "64 °C", "-".
[[nodiscard]] std::string show_celsius(const model::Reading<double>& reading);
[[nodiscard]] std::string show_age(double seconds);
/// RFC 3339 in UTC with milliseconds, for JSON; "" for a time before 1970.
[[nodiscard]] std::string show_time(std::int64_t unix_milliseconds);

/// The processes and users on a device.
struct Use {
  // Each user once, sorted by the memory they use; "" is an unknown user.
  std::vector<std::string> users;
  int processes = 0;
  const model::DeviceProcess* largest = nullptr;
};
/// The use of each device by Device::index. Unused devices are left out. Points into the snapshot.
[[nodiscard]] std::map<int, Use> uses_of(const model::Snapshot& snapshot);
/// The users in words: "lin, zhao"; "?" for unknown users.
[[nodiscard]] std::string show_users(const Use& use);

/// The leases on a device and its partitions; empty if there is no broker.
[[nodiscard]] std::vector<model::Holding> leases_of(const model::Device& device,
                                                    const model::Snapshot& snapshot);

/// Whether the holding stands for a drained unit, which gets no new jobs.
[[nodiscard]] bool is_drained(const model::Holding& one);
/// The number of a lease's job for people: "7_3", or the plain id if the snapshot does not have
/// that number.
[[nodiscard]] std::string lease_number(std::uint64_t job, const model::Snapshot& snapshot);

[[nodiscard]] const model::Device* find_device(const model::Snapshot& snapshot, int index);
/// Counts names, in the order of their first occurrence.
struct Tally {
  std::vector<std::pair<std::string, int>> counts;
  void add(const std::string& name);
};
[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view with);

}  // namespace berth::output
