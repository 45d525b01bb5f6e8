// Finds processes that hold a GPU and cannot be killed. Their command line and maps are not read,
// because that can block as well.
#include <algorithm>
#include <cerrno>

#include "base/text_parts.hpp"
#include "doctor/facts/machine.hpp"
#include "doctor/read/collectors.hpp"

namespace berth::doctor {
namespace {

constexpr std::size_t kMostStuck = 64, kMostThreads = 64, kMostFiles = 1024;

/// Parses "4711 (python) D 1 …". The name may contain spaces and brackets. pid is 0 if the line is
/// invalid.
StuckProcess parse_stat(std::string_view line) {
  StuckProcess one;
  const std::size_t open = line.find('('), close = line.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open ||
      close + 3 >= line.size())
    return one;
  one.name = std::string(line.substr(open + 1, close - open - 1));
  one.state = line[close + 2];
  const std::string_view rest = line.substr(close + 3);
  const auto fields = split(trim(rest), ' ');
  one.parent = static_cast<int>(to_number(fields.front()).value_or(0));
  one.pid = static_cast<int>(to_number(trim(line.substr(0, open))).value_or(0));
  return one;
}

/// Searches the open files of a thread for a GPU node.
void look_for_node(const Tree& tree, const std::string& folder, StuckProcess& one) {
  const auto files = tree.list(folder + "/fd", kMostFiles);
  if (files.is_unreadable()) one.unknown = true;
  for (const std::string& file : files.value_or({})) {
    const auto target = tree.link(folder + "/fd/" + file);
    if (!target || !target->starts_with("/dev/nvidia")) continue;
    // /dev/nvidia0 shows which GPU the process uses. Other nodes, such as /dev/nvidiactl, count
    // only if it has no such node open.
    const bool is_gpu = target->size() > 11 && (*target)[11] >= '0' && (*target)[11] <= '9';
    if (one.node.empty() || is_gpu) one.node = *target;
    if (is_gpu) return;
  }
}

void look_at_files(const Tree& tree, StuckProcess& one) {
  const std::string folder = "/proc/" + std::to_string(one.pid);
  if (one.state == 'D') return look_for_node(tree, folder, one);
  // If the main thread has exited, other threads may still live and hold the files of the process.
  std::size_t count = 0;
  for (const std::string& thread : tree.list(folder + "/task", 10'000).value_or({}))
    if (thread != std::to_string(one.pid) && one.node.empty() && ++count <= kMostThreads)
      look_for_node(tree, folder + "/task/" + thread, one);
}

Fact<std::vector<StuckProcess>> find_stuck(const Tree& tree) {
  const auto driver = tree.node("/dev/nvidiactl");
  if (driver.is_unreadable()) return driver.why();
  if (!driver) return {};
  const auto entries = tree.list("/proc");
  if (!entries) return entries.is_unreadable() ? entries.why() : Unreadable{"/proc", ENOENT};
  std::vector<StuckProcess> found;
  for (const std::string& entry : *entries) {
    if (entry.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto stat = tree.read("/proc/" + entry + "/stat", 1024);
    if (!stat) continue;
    StuckProcess one = parse_stat(*stat);
    // kthreadd: the parent of all other kernel threads
    constexpr int kKernelThreads = 2;
    if (one.pid <= kKernelThreads || one.parent == kKernelThreads || found.size() >= kMostStuck ||
        (one.state != 'D' && one.state != 'Z'))
      continue;
    look_at_files(tree, one);
    found.push_back(std::move(one));
  }
  return found;
}

}  // namespace

Fact<std::vector<StuckProcess>> collect_stuck(const Tree& tree) {
  // Open files of other users' processes cannot be read, so some holders may be missing.
  return tree.watched([&] { return find_stuck(tree); });
}

}  // namespace berth::doctor
