#include "top/replay.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error_words.hpp"
#include "output/json.hpp"
#include "top/draw.hpp"

using namespace berth;
using namespace berth::top;

namespace {

struct RecordingFolder {
  std::string path = "/tmp/berth-top-XXXXXX";
  RecordingFolder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~RecordingFolder() { std::filesystem::remove_all(path); }
  RecordingFolder(const RecordingFolder&) = delete;
  RecordingFolder& operator=(const RecordingFolder&) = delete;
};

watch::Frame recorded_frame() {
  watch::Frame frame;
  frame.number = 7;
  frame.snapshot.host.hostname = "box";
  frame.snapshot.driver.version = "580.95.05";
  frame.snapshot.unix_milliseconds = 1'700'000'000'250;
  frame.seconds = 1'700'000'000.25;
  model::Device device;
  device.index = 3;
  device.uuid = "GPU-3";
  device.name = "NVIDIA H100 80GB HBM3";
  device.health = model::Health::kDegraded;
  device.health_reasons = {"ecc_uncorrected"};
  device.readings.utilization_percent = 90.5;
  device.readings.memory_total_bytes = std::uint64_t{80} << 30U;
  device.readings.memory_used_bytes = std::uint64_t{40} << 30U;
  frame.snapshot.devices.push_back(device);
  device.index = 4;
  device.uuid = "GPU-4";
  device.health = model::Health::kLost;
  device.processes_unknown = model::Absence::kLost;
  model::set_all_absent(device.readings, model::Absence::kLost);
  frame.snapshot.devices.push_back(device);
  model::DeviceProcess process;
  process.device = 3;
  process.pid = 4121;
  process.parent = 4000;
  process.user = "lin";
  process.kind.compute = true;
  process.memory_bytes = std::uint64_t{1} << 30U;
  process.command = "python3 train.py 训练";
  frame.snapshot.processes.push_back(process);
  return frame;
}

std::string text_of(const watch::Frame& frame) {
  std::string all;
  for (const Line& line : draw(frame, {}, {}, 120, 0)) {
    for (const Span& span : line) all += span.text;
    all += "\n";
  }
  return all;
}

std::string document_of(const watch::Frame& frame) {
  return output::frame_json(frame.snapshot, {frame.number, 0, 0});
}

}  // namespace

TEST_CASE("a recorded frame looks as it did live") {
  const watch::Frame frame = recorded_frame();
  const auto read = frame_in(document_of(frame));
  REQUIRE(read);
  CHECK(text_of(*read) == text_of(frame));
  REQUIRE_FALSE(read->snapshot.processes.empty());
  CHECK(read->snapshot.processes[0].parent == 4000);
  CHECK(read->number == 7);
  CHECK(read->seconds == doctest::Approx(frame.seconds));
}

TEST_CASE("what is not a recorded frame is refused, whatever it is") {
  for (const char* text : {"", "{}", "[]", "null", "{\"devices\":1,\"processes\":[]}",
                           "{\"devices\":[{}],\"processes\":[]}",
                           "{\"devices\":[],\"processes\":[{\"device\":1e300}]}",
                           "{\"devices\":[{\"index\":\"0\"}],\"processes\":[]}"})
    CHECK_MESSAGE(!frame_in(text), text);
  const auto odd = frame_in(
      R"({"time":5,"host":[],"driver":null,"devices":[{"index":0,"kind":7,"utilization_percent":"x"}],
          "processes":[{"device":0,"pid":"1","kind":"compute","command":"a\u001b[2J"}]})");
  REQUIRE(odd);
  CHECK_FALSE(odd->snapshot.devices[0].readings.utilization_percent);
  CHECK(odd->snapshot.processes[0].command.find('\x1b') == std::string::npos);
}

TEST_CASE("a recording is read at any place, and a torn line repeats the one before") {
  const RecordingFolder folder;
  const std::string file = folder.path + "/recording";
  watch::Frame frame = recorded_frame();
  {
    std::ofstream out(file);
    out << document_of(frame);
    frame.number = 8;
    out << document_of(frame) << document_of(frame).substr(0, 50);
  }
  auto replay = Replay::open(file);
  REQUIRE(replay);
  REQUIRE(replay->size() == 3);
  CHECK(replay->at(1)->number == 8);
  CHECK(replay->at(2)->number == 8);
  CHECK(replay->at(0)->number == 7);
  std::ofstream(file) << "no recording\n";
  CHECK(Replay::open(file).error().id == "E0966");
  const Error missing = Replay::open(folder.path + "/missing").error();
  CHECK(missing.id == "E0966");
  CHECK(missing.message.find(error_words(ENOENT)) != std::string::npos);
  const Error endless = Replay::open("/dev/zero").error();
  CHECK(endless.id == "E0966");
}
