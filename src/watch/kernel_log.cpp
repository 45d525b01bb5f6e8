#include "watch/kernel_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>

#include "base/text_parts.hpp"

namespace berth::watch {
namespace {

constexpr std::int64_t kRecentMicroseconds = std::int64_t{3600} * 1'000'000;

std::int64_t microseconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace

KernelLog::KernelLog(const std::string& file)
    : file_(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)) {}

/// A record: "6,339,5140900,-;text", with microseconds since the machine started.
void KernelLog::read_record(std::string_view record, std::vector<model::XidEvent>& events) const {
  const auto text = record.find(';');
  if (text == std::string_view::npos) return;
  auto event = model::xid_in_log(record.substr(text + 1), model::kXidMark);
  const auto parts = split(record.substr(0, text), ',');
  const auto time = parts.size() < 3 ? std::nullopt : to_number(parts[2]);
  if (!event || !time) return;
  const std::int64_t age = microseconds(CLOCK_MONOTONIC) - *time;
  if (*time < 0 || age > kRecentMicroseconds) return;
  event->unix_milliseconds = (microseconds(CLOCK_REALTIME) - age) / 1000;
  events.push_back(*std::move(event));
}

std::vector<model::XidEvent> KernelLog::take() {
  constexpr int kMostReads = 20'000;  // more than the kernel keeps
  std::vector<model::XidEvent> events;
  std::array<char, 8192> buffer{};  // the kernel's records are shorter
  for (int reads = 0; file_ && reads < kMostReads; ++reads) {
    const ssize_t count = ::read(file_.get(), buffer.data(), buffer.size());
    if (count < 0 && (errno == EPIPE || errno == EINTR)) continue;  // records were overwritten
    if (count <= 0) break;
    const std::string_view records(buffer.data(), static_cast<std::size_t>(count));
    for (const std::string_view record : split(records, '\n')) read_record(record, events);
  }
  return events;
}

}  // namespace berth::watch
