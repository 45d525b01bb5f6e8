#include "system/host.hpp"

#include <doctest/doctest.h>
#include <unistd.h>
#include <test_paths.hpp>

#include <string>

#include "system/cpu_model.hpp"

using namespace berth;
using namespace berth::system;

namespace {
Roots recorded(const std::string& machine) {
  const std::string folder = std::string(BERTH_TEST_MACHINES) + "/" + machine;
  return {folder + "/proc", folder + "/sys", folder + "/dev", folder + "/etc", folder + "/proc"};
}
constexpr std::uint64_t kGiB = 1ULL << 30;
}  // namespace

TEST_CASE("a pod with 1.5 cores and 4 GiB runs one thread") {
  const model::Host host = read_host(recorded("pod-cgroup2"));
  CHECK(host.hostname == "train-0");
  CHECK(host.kernel == "5.15.0-101-generic");
  CHECK(host.cpu_model == "Intel(R) Xeon(R) Platinum 8480+");
  CHECK(host.container == "kubernetes");
  CHECK(!host.wsl);
  CHECK(host.cpu.affinity == "0-31");
  CHECK(host.cpu.cores_total == 32);
  CHECK(host.cpu.quota_cores == 1.5);
  CHECK(host.cpu.cores_usable == 1);
  CHECK(host.cpu.memory_limit_bytes == 4 * kGiB);
  // The limit is 4 GiB, and 3 GiB are used. 1 GiB of the used memory is idle file cache, so 2 GiB
  // are available.
  CHECK(host.cpu.memory_available_bytes == 2 * kGiB);
}

TEST_CASE("a container of cgroup v1 sees its own limits through bind mounts") {
  const model::Host host = read_host(recorded("docker-cgroup1"));
  CHECK(host.container == "docker");
  CHECK(host.kernel == "4.18.0-513.el8.x86_64");
  CHECK(host.cpu.affinity == "0-7");
  CHECK(host.cpu.quota_cores == 4.0);
  CHECK(host.cpu.cores_usable == 4);
  CHECK(host.cpu.memory_limit_bytes == 8 * kGiB);
  CHECK(host.cpu.memory_available_bytes == 7 * kGiB);
}

TEST_CASE("v1 controllers beside an empty v2 hierarchy, the tightest ancestor counts") {
  const model::Host host = read_host(recorded("hybrid-cgroups"));
  CHECK(host.container.empty());
  CHECK(host.cpu.quota_cores == 0.5);
  CHECK(host.cpu.cores_usable == 1);
  CHECK(host.cpu.cores_affinity == 4);
  CHECK(host.cpu.memory_limit_bytes == 2 * kGiB);
  CHECK(host.cpu.memory_available_bytes == 1 * kGiB);
}

TEST_CASE("a cpuset narrows the machine and nothing else limits it") {
  const model::CpuBudget cpu = read_cpu_budget(recorded("cpuset-limited"));
  CHECK(cpu.affinity == "8-15");
  CHECK(cpu.cores_total == 128);
  CHECK(cpu.cores_affinity == 8);
  CHECK(!cpu.quota_cores);
  CHECK(cpu.cores_usable == 8);
  CHECK(!cpu.memory_limit_bytes);
  CHECK(cpu.memory_available_bytes == 500000000ULL * 1024);
}

TEST_CASE("Arm cores have names, and a GPU's memory is not a NUMA node to run on") {
  const model::Host host = read_host(recorded("grace-hopper"));
  CHECK(host.cpu_model == "Neoverse-V2");
  CHECK(host.numa_nodes == 1);
  CHECK(host.cpu.cores_usable == 72);
  const auto two = parse_cpu_model(
      "CPU implementer : 0x41\nCPU part : 0xd87\n\nCPU implementer : 0x41\nCPU part : 0xd85\n\n"
      "CPU implementer : 0x41\nCPU part : 0xd87\n");
  CHECK(two.name == "Cortex-A725 + Cortex-X925");
  CHECK(two.vendor_name == "Arm");
  CHECK(parse_cpu_model("CPU implementer : 0x41\nCPU part : 0xfff\n").name.empty());
}

TEST_CASE("two NUMA nodes, the hottest package and the memory controllers' errors") {
  const Roots roots = recorded("two-nodes");
  const model::Host host = read_host(roots);
  CHECK(host.numa_nodes == 2);
  const model::Device cpu = cpu_device(roots, host);
  CHECK(cpu.kind == model::DeviceKind::kCpu);
  CHECK(cpu.vendor_name == "Intel");
  CHECK(!cpu.numa_node);
  CHECK(cpu.local_cpus == "0-15");
  CHECK(cpu.readings.temperature_celsius.value == 57.0);
  CHECK(cpu.readings.ecc_corrected.value == 6);
  CHECK(cpu.readings.ecc_uncorrected.value == 1);
  CHECK(cpu.health == model::Health::kDegraded);
  CHECK(cpu.readings.memory_used_bytes.value == (131072000ULL - 100000000ULL) * 1024);
  CHECK(cpu.readings.utilization_percent.why == model::Absence::kNeedsTwoReadings);
  CHECK(!cpu.readings.utilization_percent);
}

TEST_CASE("a machine without any facts is not called healthy, and has one core") {
  const Roots roots = recorded("no-such-machine");
  const model::Host host = read_host(roots);
  CHECK(host.cpu.cores_usable == 1);
  CHECK(!host.cpu.memory_available_bytes);
  const model::Device cpu = cpu_device(roots, host);
  CHECK(cpu.name == "CPU");
  CHECK(cpu.health == model::Health::kNotChecked);
  CHECK(!cpu.readings.memory_total_bytes);
  CHECK(!cpu.readings.temperature_celsius);
}

TEST_CASE("WSL is seen by its kernel") {
  const model::Host host = read_host(recorded("wsl"));
  CHECK(host.wsl);
  CHECK(host.container == "wsl");
}

TEST_CASE("this very machine has cores, memory and a name") {
  const model::Host host = read_host({});
  CHECK(host.cpu.cores_usable >= 1);
  CHECK(host.cpu.cores_usable <= ::sysconf(_SC_NPROCESSORS_CONF));
  CHECK(host.cpu.memory_total_bytes > 0);
  CHECK(host.cpu.memory_available_bytes.value_or(0) <= host.cpu.memory_total_bytes);
  CHECK(!host.hostname.empty());
  CHECK(!host.kernel.empty());
}

TEST_CASE("without a source for the number of processors it is unknown, and one is used") {
  Roots roots;
  roots.proc = roots.sys = "/nonexistent";
  const auto cpu = read_cpu_budget(roots);
  CHECK(cpu.cores_total == 0);
  CHECK(cpu.cores_affinity == 0);
  CHECK(cpu.cores_usable == 1);
  CHECK(cpu.affinity.empty());
}
