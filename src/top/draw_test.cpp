#include "top/draw.hpp"

#include <doctest/doctest.h>

using namespace berth;
using namespace berth::top;

namespace {

watch::Frame busy_frame(int devices, int processes) {
  watch::Frame frame;
  frame.snapshot.host.hostname = "box";
  frame.snapshot.unix_milliseconds = 1'700'000'000'000;
  for (int i = 0; i < devices; ++i) {
    model::Device device;
    device.index = i;
    device.uuid = "GPU-" + std::to_string(i);
    device.name = "NVIDIA H100 80GB HBM3";
    device.health = model::Health::kOk;
    device.readings.utilization_percent = 90.0;
    device.readings.memory_total_bytes = std::uint64_t{80} << 30U;
    device.readings.memory_used_bytes = std::uint64_t{40} << 30U;
    device.readings.power_milliwatts = std::uint64_t{600'000};
    device.readings.temperature_celsius = 60.0;
    frame.snapshot.devices.push_back(device);
  }
  for (int i = 0; i < processes; ++i) {
    model::DeviceProcess process;
    process.device = devices == 0 ? 0 : i % devices;
    process.pid = process.host_pid = 1000 + i;
    process.user = i % 2 == 0 ? "lin" : "zhao";
    process.memory_bytes = static_cast<std::uint64_t>(i + 1) << 20U;
    process.command = "/usr/bin/python3 train_" + std::to_string(i) + ".py 训练";
    frame.snapshot.processes.push_back(process);
  }
  return frame;
}

std::string text_of(const std::vector<Line>& lines) {
  std::string all;
  for (const Line& line : lines) {
    for (const Span& span : line) all += span.text;
    all += "\n";
  }
  return all;
}

}  // namespace

TEST_CASE("partitions are below their device, and processes have their number") {
  watch::Frame frame = busy_frame(2, 2);
  auto& parts = frame.snapshot.devices[0].partitions;
  for (std::uint32_t i = 0; i < 3; ++i) {
    parts.emplace_back().index = i;
    parts.back().name = "MIG 1g.10gb";
    parts.back().uuid = "MIG-" + std::to_string(i);
    parts.back().memory_total_bytes = std::uint64_t{10} << 30U;
    parts.back().memory_used_bytes = std::uint64_t{4} << 30U;
  }
  frame.snapshot.processes[0].partition_uuid = "MIG-2";
  const std::string text = text_of(draw(frame, {}, {}, 110, 40));
  CHECK(text.find(" 0:1 ") != std::string::npos);
  CHECK(text.find("4.0 / 10.0 GiB lin  MIG 1g.10gb") != std::string::npos);
  CHECK(text.find("0:2    1000 lin") != std::string::npos);
  const std::string low = text_of(draw(frame, {}, {}, 110, 10));
  CHECK(low.find("MIG 1g") == std::string::npos);
  CHECK(low.find("3 partitions") != std::string::npos);
  CHECK(low.find("  1 ") != std::string::npos);
}

TEST_CASE("a device's row ends with its activity, and says that NVLinks are down") {
  watch::Frame frame = busy_frame(2, 0);
  auto& readings = frame.snapshot.devices[0].readings;
  readings.sm_active_percent = 60.0;
  readings.nvlink_rx_bytes_per_second = std::uint64_t{5} << 30U;
  readings.nvlink_tx_bytes_per_second = std::uint64_t{3} << 30U;
  readings.nvlink_links = std::uint64_t{16};
  readings.nvlink_links_max = std::uint64_t{18};
  const std::string text = text_of(draw(frame, {}, {}, 160, 40));
  CHECK(text.find("SM 60 %, NVLink 5.00 GiB/s in, 3.00 GiB/s out") != std::string::npos);
  CHECK(text.find("NVLink 16 of 18") != std::string::npos);
  CHECK(text.find("tensor") == std::string::npos);
  CHECK(text_of(draw(frame, {}, {}, 80, 24)).find("NVLink 16 of 18") != std::string::npos);
}

TEST_CASE("graphs show use, memory, power or temperature, and an unknown one is empty") {
  watch::Frame frame = busy_frame(1, 0);
  frame.snapshot.devices[0].readings.power_limit_milliwatts = std::uint64_t{700'000};
  Series series;
  for (int i = 0; i < 200; ++i) series.add(frame);
  Settings settings;
  const auto shown = [&](const char* graph) {
    settings.graph = graph;
    return text_of(draw(frame, series, settings, 100, 30));
  };
  const auto dots = [](const std::string& text) {
    std::size_t count = 0;
    for (auto at = text.find("⣿"); at != std::string::npos; at = text.find("⣿", at + 1)) ++count;
    return count;
  };
  CHECK(shown("use").find("0 use 90 %") != std::string::npos);
  CHECK(shown("memory").find("0 memory 40.0 GiB") != std::string::npos);
  CHECK(shown("power").find("0 power 600 W") != std::string::npos);
  CHECK(shown("temperature").find("0 temperature 60 °C") != std::string::npos);
  CHECK(dots(shown("use")) > dots(shown("temperature")));
  CHECK(dots(shown("temperature")) > dots(shown("memory")));
  frame.snapshot.devices[0].readings.power_limit_milliwatts = model::Absence::kNotSupported;
  Series unknown;
  for (int i = 0; i < 200; ++i) unknown.add(frame);
  settings.graph = "power";
  CHECK(dots(text_of(draw(frame, unknown, settings, 100, 30))) == 0);
}

TEST_CASE("before the processes are read, the list does not say that there are none") {
  watch::Frame frame = busy_frame(2, 0);
  CHECK(text_of(draw(frame, {}, {}, 80, 24)).find("no process is on a device") !=
        std::string::npos);
  frame.is_early = true;
  const std::string early = text_of(draw(frame, {}, {}, 80, 24));
  CHECK(early.find("reading the processes") != std::string::npos);
  CHECK(early.find("no process") == std::string::npos);
}

TEST_CASE("the screen fits every size of terminal") {
  for (const int devices : {0, 1, 8, 16})
    for (const int processes : {0, 3, 500}) {
      const watch::Frame frame = busy_frame(devices, processes);
      Series series;
      for (int i = 0; i < 50; ++i) series.add(frame);
      for (const int width : {1, 20, 80, 132, 400})
        for (const int height : {1, 2, 5, 24, 60}) {
          const auto lines = draw(frame, series, {}, width, height);
          CHECK(static_cast<int>(lines.size()) == height);
          for (const Line& line : lines) CHECK(output::display_width(text_of({line})) <= width + 1);
        }
    }
}

TEST_CASE("80 by 24 shows eight devices, graphs and processes") {
  const watch::Frame frame = busy_frame(8, 20);
  Series series;
  series.add(frame);
  const std::string text = text_of(draw(frame, series, {}, 80, 24));
  CHECK(text.find("  7 ") != std::string::npos);
  CHECK(text.find("40.0 / 80.0 GiB") != std::string::npos);
  INFO(text);
  CHECK(text.find("1019 zhao") != std::string::npos);
  const std::string wide = text_of(draw(frame, series, {}, 120, 24));
  CHECK(wide.find("python3 train_19.py") != std::string::npos);
  CHECK(text.find("q quit") != std::string::npos);
}

TEST_CASE("a low terminal folds devices rather than hiding that there are more") {
  const std::string text = text_of(draw(busy_frame(16, 4), {}, {}, 80, 16));
  CHECK(text.find("more devices") != std::string::npos);
}

TEST_CASE("processes are sorted, largest first, and unknown ones last") {
  watch::Frame frame = busy_frame(1, 3);
  frame.snapshot.processes[2].memory_bytes = model::Absence::kNotSupported;
  const std::string text = text_of(draw(frame, {}, {}, 100, 0));
  const auto largest = text.find("train_1"), smaller = text.find("train_0"),
             unknown = text.find("train_2");
  CHECK(largest < smaller);
  CHECK(smaller < unknown);
  CHECK(unknown != std::string::npos);
}

TEST_CASE("the filter looks at command, user, pid and job, in any case") {
  watch::Frame frame = busy_frame(1, 4);
  frame.snapshot.processes[3].job = 118;
  const auto shown = [&](const char* filter) {
    Settings settings;
    settings.filter = filter;
    return text_of(draw(frame, {}, settings, 120, 0));
  };
  CHECK(shown("TRAIN_2").find("train_2") != std::string::npos);
  CHECK(shown("TRAIN_2").find("train_1") == std::string::npos);
  CHECK(shown("zhao").find("lin ") == std::string::npos);
  CHECK(shown("job 118").find("train_3") != std::string::npos);
  CHECK(shown("no such").find("no process matches") != std::string::npos);
}

TEST_CASE("what is not known is a dash, and a process of another namespace is marked") {
  watch::Frame frame = busy_frame(1, 1);
  frame.snapshot.devices[0].readings.utilization_percent = model::Absence::kNotSupported;
  frame.snapshot.devices[0].readings.power_milliwatts = model::Absence::kNotSupported;
  frame.snapshot.processes[0].pid.reset();
  frame.snapshot.processes[0].command.clear();
  const std::string text = text_of(draw(frame, {}, {}, 100, 0));
  CHECK(text.find("(1000)") != std::string::npos);
  CHECK(text.find("0 %") == std::string::npos);
}

TEST_CASE("an unreadable process list is not an unused device") {
  watch::Frame frame = busy_frame(1, 0);
  CHECK(text_of(draw(frame, {}, {}, 100, 0)).find("no process is on a device") !=
        std::string::npos);
  frame.snapshot.devices[0].processes_unknown = model::Absence::kNoPermission;
  const std::string text = text_of(draw(frame, {}, {}, 100, 0));
  CHECK(text.find("users not known") != std::string::npos);
  CHECK(text.find("no process is known to use a device") != std::string::npos);
}

TEST_CASE("control characters of a process do not reach the terminal") {
  watch::Frame frame = busy_frame(1, 1);
  frame.snapshot.processes[0].user = "a\x1b[2Jb";
  frame.snapshot.processes[0].container = "docker \x07";
  const std::string text = text_of(draw(frame, {}, {}, 120, 0));
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\x07') == std::string::npos);
}

TEST_CASE("a click selects the row under it, and a heading sorts by its column") {
  const watch::Frame frame = busy_frame(2, 40);
  Settings settings;
  for (const bool by_user : {false, true})
    for (const int height : {10, 24, 60}) {
      settings = {};
      settings.by_user = by_user;
      const auto lines = draw(frame, {}, settings, 100, height);
      int top = 0;
      while (text_of({lines[static_cast<std::size_t>(top)]}).find("memory▼") == std::string::npos)
        ++top;
      click(frame, settings, 100, height, 5, top + 2);
      REQUIRE(settings.has_row);
      const auto after = draw(frame, {}, settings, 100, height);
      CHECK(text_of({after[static_cast<std::size_t>(top + 2)]}).find('>') != std::string::npos);
      const int column = by_user ? 5 : 18;  // user
      click(frame, settings, 100, height, column, top);
      CHECK(settings.sort == "user");
      CHECK_FALSE(settings.is_reversed);
      click(frame, settings, 100, height, column, top);
      CHECK(settings.is_reversed);
      const Settings before = settings;
      for (const int y : {0, 1, height - 1, height + 9, -1})
        click(frame, settings, 100, height, 5, y);
      CHECK(settings.row == before.row);
      CHECK(settings.sort == before.sort);
    }
}

TEST_CASE("a narrow screen leaves out columns, and cuts neither the command nor a number") {
  watch::Frame frame = busy_frame(1, 3);
  for (model::DeviceProcess& process : frame.snapshot.processes)
    process.rss_bytes = std::uint64_t{960} << 10U;
  Settings settings;
  const std::string wide = text_of(draw(frame, {}, settings, 100, 0));
  CHECK(wide.find("960 KiB") != std::string::npos);
  const std::string narrow = text_of(draw(frame, {}, settings, 60, 0));
  CHECK(narrow.find("python3 train_2") != std::string::npos);
  CHECK(narrow.find("960") == std::string::npos);
  CHECK(narrow.find("3.00 MiB") != std::string::npos);
  settings.sort = "rss";  // even on a narrow screen, the column that sorts the list is shown
  CHECK(text_of(draw(frame, {}, settings, 60, 0)).find("960 KiB") != std::string::npos);
  // A click on a column's heading sorts by that column.
  const auto lines = draw(frame, {}, settings, 60, 24);
  int top = 0;
  while (text_of({lines[static_cast<std::size_t>(top)]}).find("▼") == std::string::npos) ++top;
  const std::string heading = text_of({lines[static_cast<std::size_t>(top)]});
  click(frame, settings, 60, 24, static_cast<int>(heading.find("SM")), top);
  CHECK(settings.sort == "sm");
}

TEST_CASE("the list by user and the tree are drawn") {
  watch::Frame frame = busy_frame(2, 4);
  frame.snapshot.processes[1].memory_bytes = model::Absence::kNotSupported;
  Settings settings;
  settings.by_user = true;
  const std::string users = text_of(draw(frame, {}, settings, 100, 0));
  CHECK(users.find("lin                       2") != std::string::npos);
  // Zhao's memory: the value of one process is unknown.
  CHECK(users.find("4.00 MiB+") != std::string::npos);
  CHECK(users.find("train_") == std::string::npos);
  settings.sort = "pid";
  CHECK(text_of(draw(frame, {}, settings, 100, 0)).find("memory▼") != std::string::npos);
  settings.by_user = false;
  settings.is_tree = true;
  frame.snapshot.processes[1].parent = 1000;
  CHECK(text_of(draw(frame, {}, settings, 100, 0)).find("└ python3 train_1") != std::string::npos);
  settings.utf8 = false;
  CHECK(text_of(draw(frame, {}, settings, 100, 0)).find("`-python3 train_1") != std::string::npos);
}
