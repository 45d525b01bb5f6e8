// The words and numbers of the screens: one spelling of a health, a cause, a pair of sizes, a
// device's short name, for all of them. Strings from outside come back printable.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/device_use.hpp"  // word_for() of a kind
#include "model/snapshot.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// "ok", "no answer", …, translated; and the colour that repeats it.
[[nodiscard]] std::string_view word_for(model::Health health);
[[nodiscard]] Style style_for(model::Health health);
/// Why a reading is absent, translated: "needs two readings".
[[nodiscard]] std::string_view word_for(model::Absence why);
/// An identifier of throttle_reasons or health_reasons in words: "temperature", "uncorrected memory
/// errors", "Xid 79"; one that is not known comes back as it is.
[[nodiscard]] std::string reason_words(std::string_view id);
/// Throttle reasons that slow the device down while it works ("idle" and set clocks are none), in
/// one word each ("heat"), joined by ", ".
[[nodiscard]] std::string slowed_by(const model::Device& device);
/// The reasons for its health in words, joined by ", ".
[[nodiscard]] std::string health_words(const model::Device& device);
/// Device::compute_mode in words.
[[nodiscard]] std::string mode_words(std::string_view mode);
/// Unattributed::cause in words: "a zombie process holds it".
[[nodiscard]] std::string cause_words(std::string_view cause);
/// Memory without an owner that is how this driver always is, and needs no look: its own reserve,
/// or that of processes whose sizes it does not tell (Windows, WSL).
[[nodiscard]] bool is_usual(const model::Unattributed& memory);

/// The name without what every reader knows ("NVIDIA ", "GeForce ", "(R)", "@ 2.40GHz").
[[nodiscard]] std::string short_name(const model::Device& device);
/// The device that tells the model's name: a GPU whose driver is silent has only the bus's name for
/// it, so another GPU of the same PCI id speaks for it.
[[nodiscard]] const model::Device& namesake(const model::Snapshot& snapshot,
                                            const model::Device& device);
/// The command without the folders of its program: "python3 train.py".
[[nodiscard]] std::string short_command(std::string_view command);
/// "61.2 / 79.6 GiB"; "- / 79.6 GiB"; "-" where nothing is known.
[[nodiscard]] std::string show_used(const model::Reading<std::uint64_t>& used,
                                    const model::Reading<std::uint64_t>& total);
/// "1.4 of 1.9 TiB".
[[nodiscard]] std::string show_part(std::uint64_t part, std::uint64_t whole);
/// "92 %", "-".
[[nodiscard]] std::string show_percent(const model::Reading<double>& reading);
/// "64 °C", "-".
[[nodiscard]] std::string show_celsius(const model::Reading<double>& reading);
[[nodiscard]] std::string show_age(double seconds);
/// RFC 3339 in UTC, to the millisecond, for JSON; "" for a time before 1970.
[[nodiscard]] std::string show_time(std::int64_t unix_milliseconds);

/// Who uses a device.
struct Use {
  std::vector<std::string>
      users;  // names in the order of their memory, each once; "" for one that is not known
  int processes = 0;
  const model::DeviceProcess* largest = nullptr;
};
/// By Device::index; a device nobody uses is not in it. Points into the snapshot.
[[nodiscard]] std::map<int, Use> uses_of(const model::Snapshot& snapshot);
/// "lin, zhao"; "?" stands for users that are not known.
[[nodiscard]] std::string show_users(const Use& use);

/// What has been given away of a device and of its partitions; none where nobody keeps leases.
[[nodiscard]] std::vector<model::Holding> leases_of(const model::Device& device,
                                                    const model::Snapshot& snapshot);

/// Nobody's: it gets no new jobs.
[[nodiscard]] bool is_drained(const model::Holding& one);
/// "7_3": as people name the job of a lease; its number where nobody says more.
[[nodiscard]] std::string lease_number(std::uint64_t job, const model::Snapshot& snapshot);

[[nodiscard]] const model::Device* find_device(const model::Snapshot& snapshot, int index);
/// Names and how often each was added, in the order of their first time.
struct Tally {
  std::vector<std::pair<std::string, int>> counts;
  void add(const std::string& name);
};
[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view with);

}  // namespace berth::output
