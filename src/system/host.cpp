#include "system/host.hpp"

#include <sys/stat.h>
#include <sys/utsname.h>

#include <algorithm>
#include <string>

#include "base/environment_variables.hpp"
#include "model/cpu_list.hpp"
#include "system/container.hpp"
#include "system/cpu_model.hpp"

namespace berth::system {
namespace {

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

bool is_this_machine(const Roots& roots) {
  return roots.proc == "/proc";
}

/// On x86, reads only the first record: the kernel takes milliseconds to write hundreds of records.
/// On Arm, reads all records, because the cores may differ.
CpuModel read_cpu_model(const Roots& roots) {
  const std::string path = roots.proc + "/cpuinfo";
  const std::string start = slurp(path, 4096).value_or("");
  if (start.find("CPU implementer") == std::string::npos) return parse_cpu_model(start);
  return parse_cpu_model(slurp(path, 1 << 20).value_or(""));
}

int numa_nodes(const Roots& roots) {
  const std::string folder = roots.sys + "/devices/system/node";
  // NUMA nodes that only have memory (Grace-Hopper GPUs, CXL) cannot run processes.
  for (const char* file : {"/has_cpu", "/online"}) {
    const auto line = read_line(folder + file);
    const auto nodes = line ? model::parse_cpu_list(*line) : std::nullopt;
    if (nodes && !nodes->empty()) return static_cast<int>(nodes->size());
  }
  int count = 0;
  for (const std::string& name : list_folder(folder))
    if (name.starts_with("node") && to_number(std::string_view(name).substr(4))) ++count;
  return std::max(count, 1);
}

bool is_wsl(const Roots& roots, std::string_view version) {
  std::string lower(version);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower.find("microsoft") != std::string::npos || exists(roots.dev + "/dxg");
}

std::string container(const Roots& roots, bool wsl) {
  const std::string_view proc = roots.proc;
  const std::string root(proc.substr(0, proc.size() - (proc.ends_with("/proc") ? 5 : 0)));
  const ContainerView view{[&](const char* path) { return exists(root + path); },
                           [&](const char* path) { return slurp(root + path, 1 << 22); },
                           [&](const char* name) -> std::optional<std::string> {
                             return is_this_machine(roots) ? env_nonempty(name) : std::nullopt;
                           }};
  Container found = container_by_files(view);
  if (found.kind.empty()) found = container_by_variables(view);
  return found.kind.empty() && wsl ? "wsl" : found.kind;
}

}  // namespace

model::Host read_host(const Roots& roots) {
  model::Host host;
  const std::string version = read_line(roots.proc + "/version").value_or("");
  host.hostname = printable(read_line(roots.proc + "/sys/kernel/hostname").value_or(""));
  host.kernel = printable(read_line(roots.proc + "/sys/kernel/osrelease").value_or(""));
  if (host.kernel.empty()) {
    const auto words = split(version, ' ');  // The text is "Linux version 6.1.0-18-amd64 (…".
    if (words.size() > 2) host.kernel = printable(words[2]);
  }
  host.cpu_model = read_cpu_model(roots).name;
  if (is_this_machine(roots)) {
    struct utsname names {};
    if (::uname(&names) == 0) {
      if (host.hostname.empty()) host.hostname = printable(names.nodename);
      if (host.kernel.empty()) host.kernel = printable(names.release);
      if (host.cpu_model.empty()) host.cpu_model = printable(names.machine);
    }
  }
  host.cpu = read_cpu_budget(roots);
  host.numa_nodes = numa_nodes(roots);
  host.wsl = is_wsl(roots, version);
  host.container = container(roots, host.wsl);
  return host;
}

}  // namespace berth::system
