#include "top/hosts.hpp"

#include <doctest/doctest.h>

using namespace berth;
using namespace berth::top;

namespace {

HostState host_with(const std::string& name, int devices) {
  auto frame = std::make_shared<watch::Frame>();
  for (int i = 0; i < devices; ++i) {
    model::Device device;
    device.index = i;
    device.uuid = "GPU-" + std::to_string(i);
    device.name = "NVIDIA H100";
    device.health = model::Health::kOk;
    device.readings.utilization_percent = i % 2 == 0 ? 100.0 : 0.0;
    device.readings.memory_total_bytes = std::uint64_t{80} << 30U;
    device.readings.memory_used_bytes = std::uint64_t{40} << 30U;
    frame->snapshot.devices.push_back(device);
  }
  model::DeviceProcess process;
  process.pid = 7;
  process.user = "li\x1b[31mn";
  process.command = "python3 on_" + name;
  frame->snapshot.processes.push_back(process);
  return {.name = name, .frame = std::move(frame)};
}

std::vector<std::string> drawn(const std::vector<HostState>& hosts, std::size_t selected,
                               int width = 100, int height = 30) {
  std::vector<std::string> lines;
  for (const Line& line : draw_hosts(hosts, selected, {}, width, height)) {
    lines.emplace_back();
    for (const Span& span : line) lines.back() += span.text;
  }
  return lines;
}

std::string all_of(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

}  // namespace

TEST_CASE("each machine has a row, and the selected one its devices and processes") {
  const std::vector<HostState> hosts = {host_with("lab1", 2), host_with("lab2", 8)};
  const auto lines = drawn(hosts, 1);
  CHECK(lines[1].starts_with("  lab1"));
  CHECK(lines[1].find(" 2 ") != std::string::npos);
  CHECK(lines[1].find("50 %") != std::string::npos);
  CHECK(lines[1].find("80.0 / 160.0 GiB") != std::string::npos);
  CHECK(lines[2].starts_with("> lab2"));
  const std::string all = all_of(lines);
  CHECK(all.find("on_lab2") != std::string::npos);
  CHECK(all.find("on_lab1") == std::string::npos);
  CHECK(all.find('\x1b') == std::string::npos);
}

TEST_CASE("a machine that gives no answer has its reason, and not an empty list of devices") {
  const std::vector<HostState> hosts = {{.name = "down", .problem = "ssh: connection refused"},
                                        {.name = "new"}};
  const std::string all = all_of(drawn(hosts, 0));
  CHECK(all.find("ssh: connection refused") != std::string::npos);
  CHECK(all.find("asked, no answer yet") != std::string::npos);
  CHECK(all.find("no process") == std::string::npos);
}

TEST_CASE("a sum with an unknown value is not known, and a machine without GPUs has none") {
  HostState host = host_with("lab1", 2);
  auto frame = std::make_shared<watch::Frame>(*host.frame);
  frame->snapshot.devices[1].readings.utilization_percent = model::Absence::kNotSupported;
  frame->snapshot.devices[1].health = model::Health::kLost;
  host.frame = frame;
  const std::string line = drawn({host}, 0)[1];
  CHECK(line.find("%") == std::string::npos);
  CHECK(line.find("1 lost") != std::string::npos);
  const std::string none = drawn({host_with("cpu", 0)}, 0)[1];
  CHECK(none.find("%") == std::string::npos);
  CHECK(none.find("GiB") == std::string::npos);
}

TEST_CASE("any number of machines fits any terminal, and the selected one is in the table") {
  std::vector<HostState> hosts;
  for (int i = 0; i < 64; ++i) hosts.push_back(host_with("lab" + std::to_string(i), i % 9));
  for (const int width : {1, 20, 80, 400})
    for (const int height : {1, 2, 9, 24, 70})
      for (const std::size_t selected : {std::size_t{0}, std::size_t{31}, std::size_t{63}}) {
        const auto lines = drawn(hosts, selected, width, height);
        CHECK(static_cast<int>(lines.size()) == height);
        for (const std::string& line : lines) CHECK(output::display_width(line) <= width + 1);
        if (width >= 20 && height >= 9)
          CHECK(all_of(lines).find("> lab" + std::to_string(selected)) != std::string::npos);
      }
}

TEST_CASE("a click on a row selects the machine, and one below acts on its list") {
  const std::vector<HostState> hosts = {host_with("lab1", 2), host_with("lab2", 2)};
  std::size_t selected = 0;
  Settings settings;
  settings.has_graphs = false;
  click_hosts(hosts, selected, settings, 100, 30, 3, 2);
  CHECK(selected == 1);
  click_hosts(hosts, selected, settings, 100, 30, 3, 0);
  CHECK(selected == 1);
  const auto lines = drawn(hosts, 1);
  settings.has_graphs = true;
  for (int y = 3; y < 30; ++y)
    if (lines[static_cast<std::size_t>(y)].find("on_lab2") != std::string::npos)
      click_hosts(hosts, selected, settings, 100, 30, 3, y);
  CHECK(settings.has_row);
}
