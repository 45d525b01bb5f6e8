#include "run/queued_tries.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/write_file.hpp"
#include "run/tries_record.hpp"

namespace berth::run {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

// Enough for tries with the stacks of a thousand ranks.
constexpr std::size_t kMostBytes = 16 << 20;
// The first byte of the unnamed file. The rest is JSON.
constexpr char kEarlier = '=', kGoesBack = '+';

std::string bytes_in(const Descriptor& file) {
  struct stat about = {};
  if (!file || ::fstat(file.get(), &about) != 0 || about.st_size < 1 ||
      static_cast<std::size_t>(about.st_size) > kMostBytes)
    return "";
  std::string bytes(static_cast<std::size_t>(about.st_size), '\0');
  return ::pread(file.get(), bytes.data(), bytes.size(), 0) == about.st_size ? bytes : "";
}

bool write_bytes(const Descriptor& file, const std::string& bytes) {
  return file && ::ftruncate(file.get(), 0) == 0 &&
         ::pwrite(file.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
}

/// Calls visit for each measured value of the device, with its name; used for reading and for
/// writing.
template <typename Use, typename Visit>
void visit_readings(Use& use, Visit&& visit) {
  visit("peak", use.memory_peak_bytes);
  visit("mean", use.utilization_mean_percent);
  visit("peak_use", use.utilization_peak_percent);
  visit("energy", use.energy_millijoules);
}

Json json_of(const model::DeviceUse& use) {
  Json out{{"device", use.device}, {"name", use.name}, {"uuid", use.uuid}, {"words", use.words}};
  if (use.partition) out["partition"] = *use.partition;
  visit_readings(use, [&](const char* key, const auto& reading) {
    out[key] = reading ? Json(*reading) : Json{{"why", static_cast<int>(reading.why)}};
  });
  return out;
}

model::Absence absence_in(const Json& json) {
  const auto number = json.get<unsigned>();
  const auto last = static_cast<unsigned>(model::Absence::kNotSeen);
  return number > last ? model::Absence::kFailed : static_cast<model::Absence>(number);
}

model::DeviceUse device_in(const Json& json) {
  model::DeviceUse use;
  json.at("device").get_to(use.device);
  json.at("name").get_to(use.name);
  json.at("uuid").get_to(use.uuid);
  json.at("words").get_to(use.words);
  if (json.contains("partition")) use.partition = json.at("partition").get<std::uint32_t>();
  visit_readings(use, [&](const char* key, auto& reading) {
    const Json& one = json.at(key);
    using Value = std::decay_t<decltype(*reading)>;
    if (one.is_object())
      reading = absence_in(one.at("why"));
    else
      reading = one.get<Value>();
  });
  return use;
}

}  // namespace

std::optional<EarlierTries> read_earlier_tries(const Descriptor& file) try {
  const std::string bytes = bytes_in(file);
  if (bytes.empty()) return std::nullopt;
  const Json json = Json::parse(bytes.begin() + 1, bytes.end());
  EarlierTries earlier;
  earlier.tries = tries_in(json.at("tries").get<std::string>());
  if (earlier.tries.all.empty()) return std::nullopt;
  earlier.change = static_cast<model::TryChange>(json.at("change").get<int>());
  json.at("batch_scale").get_to(earlier.batch_scale);
  json.at("without").get_to(earlier.without);
  json.at("ended").get_to(earlier.ended_unix_milliseconds);
  earlier.wall = milliseconds(json.at("wall").get<std::int64_t>());
  earlier.cpu = milliseconds(json.at("cpu").get<std::int64_t>());
  json.at("peak").get_to(earlier.peak_rss_bytes);
  for (const Json& one : json.at("devices")) earlier.devices.push_back(device_in(one));
  earlier.device_wall = milliseconds(json.at("device_wall").get<std::int64_t>());
  json.at("held").get_to(earlier.held_seconds);
  return earlier;
} catch (const Json::exception&) {
  return std::nullopt;
}

bool write_next_try(const Descriptor& file, const EarlierTries& earlier) {
  Json devices = Json::array();
  for (const model::DeviceUse& one : earlier.devices) devices.push_back(json_of(one));
  const Json json{{"tries", record_of(earlier.tries)},
                  {"change", static_cast<int>(earlier.change)},
                  {"batch_scale", earlier.batch_scale},
                  {"without", earlier.without},
                  {"ended", earlier.ended_unix_milliseconds},
                  {"wall", earlier.wall.count()},
                  {"cpu", earlier.cpu.count()},
                  {"peak", earlier.peak_rss_bytes},
                  {"devices", std::move(devices)},
                  {"device_wall", earlier.device_wall.count()},
                  {"held", earlier.held_seconds}};
  const std::string bytes = kGoesBack + json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return bytes.size() <= kMostBytes && write_bytes(file, bytes);
}

std::string tries_of(const std::string& job_files) {
  return job_files + ".tries";
}

Descriptor open_tries_for(const std::string& job_files) {
  Descriptor file(::memfd_create("berth-job-tries", 0));
  const auto earlier = slurp_regular(tries_of(job_files), kMostBytes);
  if (file && earlier && !earlier->empty()) static_cast<void>(write_bytes(file, *earlier));
  return file;
}

bool keep_tries(const Descriptor& file, const std::string& job_files) {
  std::string bytes = bytes_in(file);
  if (bytes.empty() || bytes.front() != kGoesBack) return false;
  bytes.front() = kEarlier;
  return replace_file(tries_of(job_files), bytes, 0600);
}

}  // namespace berth::run
