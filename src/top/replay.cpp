#include "top/replay.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "base/error_words.hpp"
#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"

namespace berth::top {
namespace {

using Json = nlohmann::json;
using model::Device;
using model::DeviceProcess;

constexpr std::size_t kMostLine = 16 << 20, kMostFrames = 10'000'000;

std::string text_in(const Json& json, const char* key) {
  return printable(json_text(json, key));
}

template <typename T>
std::optional<T> number_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>)
    return found->get<T>();
  else
    return json_value<T>(*found);
}

template <typename T>
void read(const Json& json, const char* key, model::Reading<T>& into) {
  if (const auto value = number_in<T>(json, key)) into = *value;
}

std::vector<std::string> texts_in(const Json& json, const char* key) {
  std::vector<std::string> texts;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return texts;
  for (const Json& one : *found)
    if (one.is_string()) texts.push_back(printable(one.get<std::string>()));
  return texts;
}

/// Converts a time such as "2026-11-23T14:02:05.250Z" to milliseconds since 1970; 0 if it is
/// invalid.
std::int64_t milliseconds_in(const std::string& time) {
  std::tm parts = {};
  const char* const end = ::strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (end == nullptr) return 0;
  std::int64_t milliseconds = std::int64_t{::timegm(&parts)} * 1000;
  if (*end == '.' && end[1] != '\0')
    milliseconds += to_number(std::string_view(end + 1).substr(0, 3)).value_or(0);
  return milliseconds;
}

model::Health health_named(const std::string& name) {
  for (const model::Health one :
       {model::Health::kOk, model::Health::kDegraded, model::Health::kLost, model::Health::kAsleep,
        model::Health::kNoAnswer})
    if (model::name(one) == name) return one;
  return model::Health::kNotChecked;
}

model::Partition partition_in(const Json& json) {
  model::Partition part;
  part.index = json_value<std::uint32_t>(json.at("index"));
  part.name = text_in(json, "name");
  part.uuid = text_in(json, "uuid");
  read(json, "memory_total_bytes", part.memory_total_bytes);
  read(json, "memory_used_bytes", part.memory_used_bytes);
  read(json, "utilization_percent", part.utilization_percent);
  return part;
}

Device device_in(const Json& json) {
  Device device;
  device.index = json_value<int>(json.at("index"));
  const std::string kind = text_in(json, "kind");
  device.kind = model::DeviceKind::kGpu;
  for (const model::DeviceKind one : {model::DeviceKind::kCpu, model::DeviceKind::kOpenCl})
    if (model::name(one) == kind) device.kind = one;
  device.name = text_in(json, "name");
  device.uuid = text_in(json, "uuid");
  device.pci_address = text_in(json, "pci_address");
  device.health = health_named(text_in(json, "health"));
  device.health_reasons = texts_in(json, "health_reasons");
  device.throttle_reasons = texts_in(json, "throttle_reasons");
  device.age_seconds = number_in<double>(json, "age_seconds");
  if (!text_in(json, "processes_unknown").empty())
    device.processes_unknown = model::Absence::kFailed;
  if (const auto parts = json.find("partitions"); parts != json.end() && parts->is_array())
    for (const Json& one : *parts) device.partitions.push_back(partition_in(one));
  model::for_each_reading(device.readings, [&](std::string_view key, auto& reading) {
    read(json, std::string(key).c_str(), reading);
  });
  return device;
}

DeviceProcess process_in(const Json& json) {
  DeviceProcess process;
  process.device = json_value<int>(json.at("device"));
  process.pid = number_in<std::int64_t>(json, "pid");
  process.host_pid = number_in<std::int64_t>(json, "host_pid");
  process.parent = number_in<std::int64_t>(json, "parent");
  process.uid = number_in<std::uint32_t>(json, "uid");
  process.job = number_in<std::uint64_t>(json, "job");
  process.partition_uuid = text_in(json, "partition_uuid");
  process.user = text_in(json, "user");
  process.command = text_in(json, "command");
  process.container = text_in(json, "container");
  for (const std::string& kind : texts_in(json, "kind")) {
    process.kind.compute = process.kind.compute || kind == "compute";
    process.kind.graphics = process.kind.graphics || kind == "graphics";
    process.kind.mps = process.kind.mps || kind == "mps";
  }
  read(json, "memory_bytes", process.memory_bytes);
  read(json, "sm_percent", process.sm_percent);
  process.guard_percent = number_in<double>(json, "guard_percent");
  read(json, "cpu_percent", process.cpu_percent);
  read(json, "rss_bytes", process.rss_bytes);
  read(json, "age_seconds", process.age_seconds);
  return process;
}

Error unreadable(const std::string& file, const std::string& why) {
  return {ErrorCode::kUnavailable, "E0966",
          text("the recording {} cannot be used: {}", printable(file), why),
          "berth top --record FILE"};
}

/// Like std::getline, but stops after kMostLine bytes.
bool read_line(std::ifstream& file, std::string& line) {
  constexpr int kEnd = std::ifstream::traits_type::eof();
  line.clear();
  for (int c = 0; (c = file.rdbuf()->sbumpc()) != kEnd;) {
    if (c == '\n') return true;
    line += static_cast<char>(c);
    if (line.size() > kMostLine) return true;
  }
  return !line.empty();
}

}  // namespace

std::optional<watch::Frame> frame_in(std::string_view document) {
  try {
    const Json json = Json::parse(document);
    watch::Frame frame;
    for (const Json& one : json.at("devices")) frame.snapshot.devices.push_back(device_in(one));
    for (const Json& one : json.at("processes"))
      frame.snapshot.processes.push_back(process_in(one));
    frame.number = number_in<std::uint64_t>(json, "frame").value_or(0);
    frame.snapshot.unix_milliseconds = milliseconds_in(text_in(json, "time"));
    frame.seconds = static_cast<double>(frame.snapshot.unix_milliseconds) / 1000;
    if (const auto host = json.find("host"); host != json.end() && host->is_object())
      frame.snapshot.host.hostname = text_in(*host, "hostname");
    if (const auto driver = json.find("driver"); driver != json.end() && driver->is_object())
      frame.snapshot.driver.version = text_in(*driver, "version");
    return frame;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

Result<Replay> Replay::open(const std::string& file) {
  Replay replay;
  replay.file_.open(file, std::ios::binary);
  if (!replay.file_.is_open()) return unreadable(file, error_words(errno));
  std::string line;
  for (std::streamoff at = 0; read_line(replay.file_, line);
       at += static_cast<std::streamoff>(line.size()) + 1) {
    if (line.size() > kMostLine) return unreadable(file, text("a line is too long"));
    if (line.starts_with('{') && replay.lines_.size() < kMostFrames) replay.lines_.push_back(at);
  }
  if (replay.lines_.empty()) return unreadable(file, text("it has no frames"));
  if (!replay.at(0)) return unreadable(file, text("it is not an output of {}", "berth top --json"));
  return replay;
}

watch::FramePtr Replay::at(std::size_t place) {
  file_.clear();
  file_.seekg(lines_.at(place));
  std::string line;
  read_line(file_, line);
  if (auto frame = frame_in(line)) last_ = std::make_shared<watch::Frame>(*std::move(frame));
  return last_;
}

}  // namespace berth::top
