// Compares the texts for hand-made machines with tests/data/screens. After an intended change,
// rewrite the files with BERTH_WRITE_GOLDEN=1 build/dev/src/output/test_output, and review the
// difference before you commit.
#include "output/screens.hpp"
#include "output/json.hpp"

#include <doctest/doctest.h>
#include <test_paths.hpp>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/language_for_tests.hpp"
#include "base/text.hpp"
#include "output/overview.hpp"
#include "output/samples_for_tests.hpp"
#include "output/words.hpp"

using namespace berth;
using namespace berth::output;

namespace {

Terminal of_width(int width) {
  Terminal terminal;
  terminal.width = width;
  return terminal;
}

bool every_verb(std::string_view) {
  return true;
}

std::string overview(const model::Snapshot& snapshot, const Terminal& terminal) {
  return overview_text(snapshot, next_steps(snapshot, every_verb), terminal);
}

/// All texts about one machine. A line with the name of the text is above each.
std::string screens_of(const model::Snapshot& snapshot) {
  std::string out;
  for (const Language wanted : {Language::kEnglish, Language::kChinese}) {
    const InLanguage chosen(wanted);
    const char* word = wanted == Language::kEnglish ? "en" : "zh";
    for (const int width : {100, 60}) {
      const Terminal terminal = of_width(width);
      const auto add = [&](const char* screen, const std::string& text) {
        out += fmt::format("===== {} {} {}\n{}", screen, word, width, text);
      };
      add("berth", overview(snapshot, terminal));
      add("ls", ls_text(snapshot, terminal, false));
      add("ps", ps_text(snapshot, terminal, false));
    }
    out += fmt::format("===== ls --wide {}\n{}", word, ls_text(snapshot, Terminal{}, true));
    out += fmt::format("===== ls --details {}\n{}", word, details_text(snapshot, Terminal{}));
  }
  return out;
}

template <typename Visit>
void each_line(const std::string& text, Visit visit) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) visit(line);
}

}  // namespace

TEST_CASE("the screens of every sample machine are as recorded") {
  const bool write = env_nonempty("BERTH_WRITE_GOLDEN").has_value();
  for (const auto& [title, snapshot] : sample_machines()) {
    // clang 14 cannot capture a structured binding in the lambda of CAPTURE
    const auto& name = title;
    CAPTURE(name);
    const std::string path = std::string(BERTH_TEST_DATA) + "/screens/" + name + ".txt";
    const std::string screens = screens_of(snapshot);
    if (write) std::ofstream(path) << screens;
    const auto recorded = slurp(path, 1U << 20U);
    REQUIRE(recorded);
    CHECK(screens == *recorded);
  }
}

TEST_CASE("no line is wider than the terminal, and what others wrote comes out printable") {
  for (const Language wanted : {Language::kEnglish, Language::kChinese}) {
    const InLanguage chosen(wanted);
    for (const auto& [title, snapshot] : sample_machines()) {
      const auto& name = title;
      CAPTURE(name);
      for (const int width : {80, 100, 140}) {
        const Terminal terminal = of_width(width);
        for (const std::string& text :
             {overview(snapshot, terminal), ls_text(snapshot, terminal, false),
              ps_text(snapshot, terminal, false), details_text(snapshot, terminal)}) {
          each_line(text, [&](const std::string& line) {
            CAPTURE(line);
            CHECK(line == printable(line));
            CHECK(display_width(line) <= width);
            CHECK((line.empty() || line.back() != ' '));
          });
        }
      }
    }
  }
}

TEST_CASE("colour adds nothing but escape sequences") {
  Terminal colourful = of_width(100);
  colourful.color = true;
  for (const auto& [title, snapshot] : sample_machines()) {
    const auto& name = title;
    CAPTURE(name);
    std::string text = ls_text(snapshot, colourful, false);
    for (auto at = text.find('\x1b'); at != std::string::npos; at = text.find('\x1b'))
      text.erase(at, text.find('m', at) + 1 - at);
    CHECK(text == ls_text(snapshot, of_width(100), false));
  }
}

TEST_CASE("where the locale is not UTF-8 our own signs are ASCII") {
  Terminal plain = of_width(100);
  plain.utf8 = false;
  for (const auto& [title, snapshot] : sample_machines()) {
    const auto& name = title;
    if (name == "strangers")
      continue;  // the texts of this machine come from outside, so they may not be ASCII
    CAPTURE(name);
    for (const std::string& text : {overview(snapshot, plain), ls_text(snapshot, plain, false),
                                    details_text(snapshot, plain)})
      for (const char c : text) CHECK(static_cast<unsigned char>(c) < 0x80);
  }
}

TEST_CASE("sixteen busy GPUs fit on 24 lines") {
  model::Snapshot snapshot = sample_machines().front().second;
  model::Device busy = snapshot.devices.front();
  const model::DeviceProcess process = snapshot.processes.front();
  snapshot.devices.clear();
  snapshot.processes.clear();
  for (int i = 0; i < 16; ++i) {
    busy.index = i;
    snapshot.devices.push_back(busy);
    snapshot.processes.push_back(process);
    snapshot.processes.back().device = i;
  }
  int lines = 0;
  each_line(overview(snapshot, of_width(100)), [&](const std::string&) { ++lines; });
  CHECK(lines <= 24);
}

TEST_CASE("a step is offered only for a verb that exists") {
  for (const auto& [title, snapshot] : sample_machines()) {
    const auto& name = title;
    CAPTURE(name);
    CHECK(next_steps(snapshot, every_verb).size() == 3);
    for (const NextStep& step :
         next_steps(snapshot, [](std::string_view verb) { return verb == "ls" || verb == "help"; }))
      CHECK((step.command.rfind("berth ls", 0) == 0 || step.command.rfind("berth help", 0) == 0));
  }
}

TEST_CASE("a broken snapshot is shown, not trusted") {
  model::Snapshot snapshot;
  model::Device device;
  device.index = -5;
  device.readings.utilization_percent = 1e300;
  device.readings.temperature_celsius = -1e9;
  device.readings.memory_used_bytes = std::uint64_t{0xFFFFFFFFFFFFFFFF};
  device.readings.power_milliwatts = std::uint64_t{0xFFFFFFFFFFFFFFFF};
  device.age_seconds = -1;
  device.health = model::Health::kNoAnswer;
  snapshot.devices.push_back(device);
  model::DeviceProcess process;
  process.device = 99;
  process.age_seconds = 1e300;
  snapshot.processes.push_back(process);
  snapshot.unattributed.push_back({98, 1, "made up", {}});
  CHECK_FALSE(overview(snapshot, Terminal{}).empty());
  CHECK_FALSE(ls_text(snapshot, Terminal{}, true).empty());
  CHECK_FALSE(ps_text(snapshot, Terminal{}, true).empty());
  CHECK_FALSE(details_text(snapshot, Terminal{}).empty());
}

TEST_CASE("memory that a driver never reports, and its own, is not a problem") {
  model::Snapshot snapshot = sample_machines().front().second;
  snapshot.unattributed.clear();
  const std::size_t before = problems_of(snapshot).size();
  for (const char* usual : {"driver_reserve", "not_reported"}) {
    snapshot.unattributed = {{0, std::uint64_t{1} << 30U, usual, {}}};
    CHECK(problems_of(snapshot).size() == before);
    CHECK(ps_text(snapshot, Terminal{}, false).find("no process accounts for it") ==
          std::string::npos);
  }
  snapshot.unattributed = {{0, std::uint64_t{1} << 30U, "zombie", {}}};
  CHECK(problems_of(snapshot).size() == before + 1);
  snapshot.processes.clear();
  snapshot.unattributed = {{0, std::uint64_t{1} << 28U, "driver_reserve", {}}};
  CHECK(ps_text(snapshot, Terminal{}, false) == "no process uses a device\n");
}

TEST_CASE("the number of processors is shown only if it is known") {
  model::Snapshot snapshot = sample_machines().front().second;
  snapshot.host.cpu = {};
  const std::string shown = ls_text(snapshot, Terminal{}, false);
  CHECK(shown.find("cores not known") != std::string::npos);
  CHECK(shown.find("1 core") == std::string::npos);
}

TEST_CASE("a desktop's graphics leave a GPU free in the overview, as for berth run") {
  model::Snapshot snapshot;
  snapshot.driver.state = "ok";
  model::Device device;
  device.index = 0;
  device.health = model::Health::kOk;
  device.readings.memory_total_bytes = std::uint64_t{24} << 30U;
  snapshot.devices.push_back(device);
  model::DeviceProcess desktop;
  desktop.device = 0;
  desktop.kind.graphics = true;
  desktop.memory_bytes = std::uint64_t{300} << 20U;
  snapshot.processes.push_back(desktop);
  CHECK(name(state_of(device, snapshot)) == "free");
  snapshot.processes[0].memory_bytes = std::uint64_t{3} << 30U;
  CHECK(name(state_of(device, snapshot)) == "busy");
  snapshot.processes.clear();
  snapshot.unattributed.push_back({0, std::uint64_t{1} << 30U, "not_readable", {}});
  CHECK(name(state_of(device, snapshot)) == "free");
  snapshot.unattributed[0].memory_bytes = std::uint64_t{3} << 30U;
  CHECK(name(state_of(device, snapshot)) == "busy");
}

TEST_CASE("a GPU with MIG and no partition is not free in the overview, as for berth run") {
  model::Snapshot snapshot;
  snapshot.driver.state = "ok";
  model::Device device;
  device.index = 0;
  device.health = model::Health::kOk;
  device.mig_enabled = true;
  device.readings.memory_total_bytes = std::uint64_t{80} << 30U;
  device.readings.memory_used_bytes = std::uint64_t{0};
  snapshot.devices.push_back(device);
  CHECK(name(state_of(device, snapshot)) == "no_partition");
  const std::string shown = overview(snapshot, Terminal{});
  CHECK(shown.find("MIG, empty") != std::string::npos);
  CHECK(shown.find("berth run --gpus 1") == std::string::npos);
  CHECK(shown.find("berth run --memory") == std::string::npos);
  snapshot.devices[0].partitions.emplace_back();
  CHECK(name(state_of(snapshot.devices[0], snapshot)) == "free");
}

TEST_CASE("a GPU with unreadable processes is not shown as free or unused on any screen") {
  model::Snapshot snapshot;
  snapshot.driver.state = "ok";
  model::Device device;
  device.vendor = model::Vendor::kNvidia;
  device.name = "NVIDIA H100";
  device.uuid = "GPU-1";
  device.index = 0;
  device.health = model::Health::kOk;
  device.processes_unknown = model::Absence::kNoPermission;
  device.note = "the driver does not show this user which processes use the GPU";
  device.readings.memory_total_bytes = std::uint64_t{80} << 30U;
  device.readings.memory_used_bytes = std::uint64_t{60} << 30U;
  device.readings.utilization_percent = 100.0;
  snapshot.devices.push_back(device);
  snapshot.unattributed.push_back({0, std::uint64_t{60} << 30U, "list_unknown", {}});
  CHECK(name(state_of(device, snapshot)) == "not_known");
  const auto problems = problems_of(snapshot);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].id == "processes_unknown");
  const std::string one = overview(snapshot, Terminal{});
  const std::string rows = ls_text(snapshot, Terminal{}, true);
  const std::string processes = ps_text(snapshot, Terminal{}, true);
  for (const std::string& screen : {one, rows, processes}) {
    CAPTURE(screen);
    CHECK(screen.find("not known") != std::string::npos);
    CHECK(screen.find("no process") == std::string::npos);
    CHECK(screen.find("free  ") == std::string::npos);
  }
  const std::string json = ls_json(snapshot);
  CHECK(json.find("\"process_count\":null") != std::string::npos);
  CHECK(json.find("\"processes_unknown\":\"no permission\"") != std::string::npos);
  snapshot.unattributed.clear();
  CHECK(ps_text(snapshot, Terminal{}, false).find("no process uses") == std::string::npos);
}

TEST_CASE("where there is no degree sign a temperature has one blank before its C") {
  Terminal ascii = of_width(100);
  ascii.utf8 = false;
  CHECK(ascii.spell("69 °C, 70 °C") == "69 C , 70 C ");
}

TEST_CASE("missing readings of a device are grouped by reason") {
  model::Snapshot snapshot;
  model::Device cpu;
  cpu.kind = model::DeviceKind::kCpu;
  cpu.index = 0;
  cpu.name = "Test CPU";
  set_all_absent(cpu.readings, model::Absence::kNotSupported);
  snapshot.devices.push_back(cpu);
  const std::string shown = details_text(snapshot, of_width(100));
  std::size_t count = 0;
  for (auto at = shown.find("not supported"); at != std::string::npos;
       at = shown.find("not supported", at + 1))
    ++count;
  CHECK(count == 1);
  CHECK(shown.find("temperature") != std::string::npos);
}

TEST_CASE("the numbers of the overview's rows have a header") {
  const std::string shown = overview(sample_machines().front().second, of_width(100));
  CHECK(shown.find("\nGPU ") != std::string::npos);
}
