#include "inventory/nvml_frames.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "wire/codec.hpp"

using namespace berth::inventory;
using berth::model::Absence;

namespace {

frames::Device sample_frame() {
  frames::Device frame;
  frame.position = 3;
  frame.complete = true;
  frame.unix_milliseconds = 1'700'000'000'123;
  frame.device.vendor_index = 3;
  frame.device.name = "NVIDIA H100";
  frame.device.uuid = "GPU-1";
  frame.device.pci_address = "0000:81:00.0";
  frame.device.health = berth::model::Health::kDegraded;
  frame.device.health_reasons = {"ecc_uncorrected"};
  frame.device.mig_enabled = true;
  frame.device.partitions.resize(1);
  frame.device.partitions[0].uuid = "MIG-1";
  frame.device.partitions[0].gpu_instance = 7;
  frame.device.readings.memory_used_bytes = std::uint64_t{5};
  frame.device.readings.temperature_celsius = 61.0;
  frame.device.readings.power_milliwatts = Absence::kNoPermission;
  frame.processes.resize(2);
  frame.processes[0].host_pid = 4242;
  frame.processes[0].kind.mps = true;
  frame.processes[1].host_pid = 4243;
  frame.processes[1].sm_percent = Absence::kNotSupported;
  return frame;
}

std::string framed(std::string_view body) {
  berth::wire::Writer out;
  out.put(body);
  return out.bytes();
}

}  // namespace

TEST_CASE("encoded frames are decoded, even if they arrive byte by byte") {
  const std::string bytes =
      frames::encode(frames::Loaded{}) + frames::encode(frames::Initialised{11}) +
      frames::encode(frames::Ready{12, 8, "580.95.05", "13.0"}) + frames::encode(sample_frame()) +
      frames::encode(frames::Done{}) + frames::encode(frames::Event{{"0000:81:00.0", 79, 5}});
  frames::Parser parser;
  std::vector<frames::Frame> got;
  for (const char byte : bytes) {
    parser.add({&byte, 1});
    while (auto frame = parser.next()) got.push_back(std::move(*frame));
  }
  REQUIRE(got.size() == 6);
  CHECK(std::get<frames::Event>(got[5]).xid.device == "0000:81:00.0");
  CHECK(std::get<frames::Event>(got[5]).xid.code == 79);
  CHECK(std::get<frames::Initialised>(got[1]).monotonic_nanoseconds == 11);
  CHECK_FALSE(parser.damaged());
  CHECK(std::get<frames::Ready>(got[2]).devices == 8);
  CHECK(std::get<frames::Ready>(got[2]).driver_version == "580.95.05");
  const auto& frame = std::get<frames::Device>(got[3]);
  CHECK(frame.position == 3);
  CHECK(frame.device.name == "NVIDIA H100");
  CHECK(frame.device.health == berth::model::Health::kDegraded);
  CHECK(frame.device.partitions.at(0).gpu_instance == 7U);
  CHECK(*frame.device.readings.memory_used_bytes == 5);
  CHECK(*frame.device.readings.temperature_celsius == 61);
  CHECK(frame.device.readings.power_milliwatts.why == Absence::kNoPermission);
  CHECK(frame.processes.at(0).kind.mps);
  CHECK(frame.processes.at(1).host_pid == 4243);
  CHECK(frame.processes.at(1).sm_percent.why == Absence::kNotSupported);
  CHECK(std::holds_alternative<frames::Done>(got[4]));
}

TEST_CASE("a truncated frame is an error, and later frames are ignored") {
  const std::string whole = frames::encode(sample_frame());
  const std::string_view body = std::string_view(whole).substr(4);
  for (std::size_t size = 0; size < body.size(); ++size) {
    frames::Parser parser;
    parser.add(framed(body.substr(0, size)));
    CHECK_FALSE(parser.next());
    CHECK(parser.damaged());
    parser.add(whole);
    CHECK_FALSE(parser.next());
  }
}

TEST_CASE("a frame with trailing bytes is an error") {
  const std::string whole = frames::encode(sample_frame());
  frames::Parser parser;
  parser.add(framed(std::string(whole.substr(4)) + "x"));
  CHECK_FALSE(parser.next());
  CHECK(parser.damaged());
}

TEST_CASE("any wrong byte does no harm, and enumerations stay in range") {
  const std::string whole = frames::encode(sample_frame());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(0xff);
    frames::Parser parser;
    parser.add(bytes);
    const auto frame = parser.next();
    if (!frame) continue;
    if (const auto* device = std::get_if<frames::Device>(&*frame)) {
      CHECK(device->position < frames::kMostDevices);
      CHECK(device->device.health <= berth::model::Health::kNotChecked);
      CHECK(device->device.readings.power_milliwatts.why <= Absence::kFailed);
    }
  }
}

TEST_CASE("absurd lengths and counts are refused before memory is allocated") {
  frames::Parser length;
  length.add(std::string_view("\xff\xff\xff\xff", 4));
  CHECK_FALSE(length.next());
  CHECK(length.damaged());

  frames::Ready many;
  many.devices = frames::kMostDevices + 1;
  frames::Parser devices;
  devices.add(frames::encode(many));
  CHECK_FALSE(devices.next());
  CHECK(devices.damaged());
}

TEST_CASE("text from the child is made printable, and shares that are not numbers are failures") {
  frames::Device frame = sample_frame();
  frame.device.name = "bad\x1b[31m\xff";
  frame.device.readings.temperature_celsius = std::numeric_limits<double>::quiet_NaN();
  frame.device.readings.fan_percent = -1.0;
  frames::Parser parser;
  parser.add(frames::encode(frame));
  const auto got = parser.next();
  REQUIRE(got);
  const auto& device = std::get<frames::Device>(*got).device;
  CHECK(device.name.find('\x1b') == std::string::npos);
  CHECK_FALSE(device.readings.temperature_celsius);
  CHECK(device.readings.fan_percent.why == Absence::kFailed);
}

TEST_CASE("a process without a positive pid is an error") {
  frames::Device frame = sample_frame();
  frame.processes[0].host_pid = 0;
  frames::Parser parser;
  parser.add(frames::encode(frame));
  CHECK_FALSE(parser.next());
  CHECK(parser.damaged());
}
