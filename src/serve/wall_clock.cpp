#include "serve/wall_clock.hpp"

#include <chrono>
#include <cstdlib>
#include <ctime>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/json_value.hpp"

namespace berth::serve {
namespace {

using Json = nlohmann::json;
/// In milliseconds. If the machine's clock was set by less, that is a leap second or a correction
/// by NTP, and is ignored.
constexpr std::int64_t kSet = 1000;
constexpr std::int64_t kLately = 24LL * 3600 * 1000;

/// Milliseconds since boot, including the time of suspend. With CLOCK_MONOTONIC, the clock would
/// seem to have been set during suspend.
std::int64_t since_start() {
  timespec time = {};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return time.tv_sec * 1000LL + time.tv_nsec / 1'000'000;
}

std::int64_t of_machine() {
  using std::chrono::duration_cast;
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return duration_cast<std::chrono::milliseconds>(since).count() - since_start();
}

}  // namespace

WallClock::WallClock()
    : boot_(read_line("/proc/sys/kernel/random/boot_id").value_or("")), ahead_(of_machine()) {}

void WallClock::resume(std::string_view record) try {
  const Json json = Json::parse(record);
  if (boot_.empty() || json.at("boot").get_ref<const std::string&>() != boot_) return;
  ahead_ = json_value<std::int64_t>(json.at("ahead"));
  set_at_ = json_value<std::int64_t>(json.at("set_at"));
} catch (const Json::exception&) {  // ignore an unreadable record
}

bool WallClock::is_of_another_start(std::string_view record) const {
  const Json json = Json::parse(record, nullptr, false);
  const auto boot = json.is_object() ? json.find("boot") : json.end();
  return boot != json.end() && boot->is_string() && !boot_.empty() && *boot != boot_;
}

std::string WallClock::record() const {
  return Json{{"boot", boot_}, {"ahead", ahead_}, {"set_at", set_at_}}.dump();
}

std::int64_t WallClock::now() const {
  return since_start() + ahead_;
}

std::int64_t WallClock::was_set_by() const {
  const std::int64_t by = of_machine() - ahead_;
  return std::abs(by) < kSet ? 0 : by;
}

void WallClock::follow() {
  ahead_ = of_machine();
  set_at_ = since_start();
}

bool WallClock::was_set_lately() const {
  return set_at_ >= 0 && since_start() - set_at_ < kLately;
}

}  // namespace berth::serve
