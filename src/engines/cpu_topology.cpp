#include "engines/cpu_topology.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "model/cpu_list.hpp"

namespace berth::engines {

std::optional<CpuTopology> read_cpu_topology(const Roots& roots) {
  const std::string folder = roots.sys + "/devices/system/cpu";
  const auto online = model::parse_cpu_list(read_line(folder + "/online").value_or(""));
  if (!online || online->empty()) return std::nullopt;
  // Maps each package to its cores, and each core to its CPUs.
  std::map<std::int64_t, std::map<std::int64_t, std::vector<int>>> packages;
  for (const int cpu : *online) {
    const std::string at = folder + "/cpu" + std::to_string(cpu) + "/topology/";
    const auto package = read_number(at + "physical_package_id");
    const auto core = read_number(at + "core_id");
    const auto die = read_number(at + "die_id");
    if (!package || !core) return std::nullopt;
    packages[*package][(die.value_or(0) << 20) + *core].push_back(cpu);
  }
  using Cores = std::vector<std::vector<int>>;
  std::vector<Cores> sockets;
  for (auto& [package, cores] : packages) {
    Cores all;
    for (auto& [core, cpus] : cores) all.push_back(std::move(cpus));
    std::sort(all.begin(), all.end());
    sockets.push_back(std::move(all));
  }
  std::sort(sockets.begin(), sockets.end());
  CpuTopology topology;
  topology.sockets = static_cast<int>(sockets.size());
  topology.threads = static_cast<int>(online->size());
  for (const Cores& cores : sockets)
    for (const auto& cpus : cores) {
      for (const int cpu : cpus) topology.core_of[cpu] = topology.cores;
      ++topology.cores;
    }
  return topology;
}

std::string cores_near(const CpuTopology& topology, const std::string& cpus) {
  const auto list = model::parse_cpu_list(cpus);
  if (!list || list->empty()) return "";
  std::set<int> cores;
  for (const int cpu : *list) {
    const auto at = topology.core_of.find(cpu);
    if (at == topology.core_of.end()) return "";
    cores.insert(at->second);
  }
  if (static_cast<int>(cores.size()) == topology.cores) return "";
  return model::show_cpu_list({cores.begin(), cores.end()});
}

}  // namespace berth::engines
