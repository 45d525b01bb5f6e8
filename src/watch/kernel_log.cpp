#include "watch/kernel_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>

#include "base/file.hpp"
#include "base/text_parts.hpp"

namespace berth::watch {
namespace {

constexpr std::int64_t kRecentMicroseconds = std::int64_t{3600} * 1'000'000;

std::int64_t microseconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

bool is_hexadecimal(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  });
}

/// Whether the text is a PCI address in the driver's form, without the function: "0000:01:00".
bool is_place(std::string_view text) {
  const auto parts = split(text, ':');
  return parts.size() == 3 && parts[0].size() >= 4 && parts[0].size() <= 8 &&
         parts[1].size() == 2 && parts[2].size() == 2 &&
         std::all_of(parts.begin(), parts.end(), is_hexadecimal);
}

/// Parses an Xid. Accepts only records of the kernel itself (facility 0) in the driver's format,
/// because any process may write records.
std::optional<model::XidEvent> xid_in(std::string_view text, std::int64_t priority) {
  constexpr int kMostCode = 1024, kFacilityShift = 3;
  if (priority < 0 || (priority >> kFacilityShift) != 0 || !text.starts_with(model::kXidMark))
    return std::nullopt;
  auto event = model::xid_in_log(text, model::kXidMark);
  if (!event || event->code < 0 || event->code > kMostCode || !is_place(event->device))
    return std::nullopt;
  return event;
}

}  // namespace

KernelLog::KernelLog(const std::string& file, const std::string& boot_id, const LogPosition& seen)
    : file_(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)) {
  constexpr std::size_t kMostBoot = 64;
  position_.boot = printable(trim(slurp(boot_id, kMostBoot).value_or("")));
  if (!position_.boot.empty() && position_.boot == seen.boot) seen_ = seen.last;
}

/// Reads a record such as "6,339,5140900,-;text": priority, number of the record, microseconds
/// since the machine started.
void KernelLog::read_record(std::string_view record, std::vector<LoggedXid>& events) {
  const auto text = record.find(';');
  if (text == std::string_view::npos) return;
  const auto parts = split(record.substr(0, text), ',');
  const auto priority = to_number(parts[0]);
  const auto number = parts.size() < 3 ? std::nullopt : to_number(parts[1]);
  const auto time = parts.size() < 3 ? std::nullopt : to_number(parts[2]);
  if (!priority || !number || !time) return;
  position_.last = std::max(position_.last, *number);
  auto event = xid_in(record.substr(text + 1), *priority);
  if (!event) return;
  const std::int64_t age = microseconds(CLOCK_MONOTONIC) - *time;
  if (*time < 0 || age > kRecentMicroseconds) return;
  event->unix_milliseconds = (microseconds(CLOCK_REALTIME) - age) / 1000;
  events.push_back({*std::move(event), *number > seen_});
}

std::vector<LoggedXid> KernelLog::take() {
  constexpr int kMostReads = 20'000;  // more records than the kernel keeps
  std::vector<LoggedXid> events;
  std::array<char, 8192> buffer{};  // larger than any record of the kernel
  for (int reads = 0; file_ && reads < kMostReads; ++reads) {
    const ssize_t count = ::read(file_.get(), buffer.data(), buffer.size());
    // EPIPE: old records were overwritten.
    if (count < 0 && (errno == EPIPE || errno == EINTR)) continue;
    if (count <= 0) break;
    const std::string_view records(buffer.data(), static_cast<std::size_t>(count));
    for (const std::string_view record : split(records, '\n')) read_record(record, events);
  }
  return events;
}

}  // namespace berth::watch
