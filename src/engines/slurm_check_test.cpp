#include "engines/slurm_check.hpp"

#include <doctest/doctest.h>

#include "engines/machines_for_tests.hpp"

using namespace berth;
using namespace berth::engines;

namespace {

constexpr const char* kSlurm =
    "GresTypes=gpu\nTaskPlugin=task/cgroup\n"
    "NodeName=lab1 CPUs=8 RealMemory=60000 Gres=gpu:rtx_3090:4\n";
constexpr const char* kGres =
    "Name=gpu Type=rtx_3090 File=/dev/nvidia[0-1] Cores=0-1\n"
    "Name=gpu Type=rtx_3090 File=/dev/nvidia[2-3] Cores=2-3\n";

/// Returns the ids of the differences, separated by blanks.
std::string found(std::string_view slurm, std::optional<std::string_view> gres = kGres,
                  const char* cgroup = "ConstrainDevices=yes", bool nvml = true,
                  bool nvlinks = false) {
  SlurmConfig config;
  parse_slurm(slurm, config);
  if (gres) config.gres = parse_gres(*gres);
  if (cgroup != nullptr) config.cgroup = words_of_line(cgroup);
  auto seen = machine_of(4);
  for (std::size_t i = 0; nvlinks && i < 4; ++i)
    seen.devices[i].nvlink_peers = {{seen.devices[i ^ 1U].pci_address, 4}};
  SlurmMachine machine{gres_node(seen, two_sockets(), {}),
                       [](const std::string& file) { return file <= "/dev/nvidia3"; },
                       "/usr/lib/slurm", nvml};
  std::string ids;
  for (const Difference& one : differences(config, machine, "lab1")) {
    CHECK_FALSE(one.what.empty());
    CHECK_FALSE(one.fix.empty());
    ids += (ids.empty() ? "" : " ") + one.id;
  }
  return ids;
}

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a configuration that fits has no difference") {
  CHECK(found(kSlurm).empty());
  CHECK(found(kSlurm, "Name=gpu Type=3090 File=/dev/nvidia[0-3]\n").empty());
  CHECK(found(kSlurm, "AutoDetect=nvml\n").empty());
}

TEST_CASE("berth slurm check accepts the output of berth slurm gres") {
  const auto node = gres_node(machine_of(4), two_sockets(), {});
  std::string slurm, gres;
  for (const std::string& line : slurm_lines(node, {"", 4})) slurm += line + "\n";
  for (const std::string& line : gres_lines(node, {"", 4})) gres += line + "\n";
  CHECK(found(slurm, gres).empty());
}

TEST_CASE("every difference is found by its own change") {
  CHECK(found(changed(kSlurm, "lab1", "lab2")) == "node_missing");
  CHECK(found(changed(kSlurm, "GresTypes=gpu", "GresTypes=craynetwork")) == "gres_types");
  CHECK(found(changed(kSlurm, "3090:4", "3090:8")) == "gres_count");
  CHECK(found(changed(kSlurm, "3090:4", "3090:2")) == "gres_count");
  CHECK(found(changed(kSlurm, "gpu:rtx_3090:4", "gpu:a100:4")) == "gres_type");
  CHECK(found(changed(kSlurm, "RealMemory=60000", "RealMemory=70000")) == "memory");
  CHECK(found(changed(kSlurm, "CPUs=8", "CPUs=16")) == "cpus");
  CHECK(found(changed(kSlurm, "task/cgroup", "task/none")) == "task_plugin");
  CHECK(found(kSlurm, kGres, nullptr) == "devices_open");
  CHECK(found(kSlurm, kGres, "ConstrainDevices=no") == "devices_open");
  CHECK(found(kSlurm, "AutoDetect=nvml\n", "ConstrainDevices=yes", false) == "autodetect");
  CHECK(found(kSlurm, changed(kGres, "[2-3]", "[2-4]")) == "file_missing");
  CHECK(found(kSlurm, changed(kGres, "[2-3]", "2")) == "file_not_listed");
  CHECK(found(kSlurm, changed(kGres, "Type=rtx_3090", "Type=a100")) == "type_differs type_differs");
  CHECK(found(kSlurm, changed(kGres, "Cores=0-1", "Cores=0-3")) == "cores_differ cores_differ");
  CHECK(found(changed(kSlurm, "3090:4", "3090:4,shard:8")) == "gres_types shards_missing");
}

TEST_CASE("NVLinks that gres.conf lacks, or has for another GPU, are a difference of each GPU") {
  const auto links = [](const std::string& gres) {
    return found(kSlurm, gres, "ConstrainDevices=yes", true, true);
  };
  CHECK(links(kGres) == "links_differ links_differ links_differ links_differ");
  CHECK(links("Name=gpu Type=rtx_3090 File=/dev/nvidia0 Cores=0-1 Links=-1,4,0,0\n"
              "Name=gpu Type=rtx_3090 File=/dev/nvidia1 Cores=0-1 Links=-1,4,0,0\n"
              "Name=gpu Type=rtx_3090 File=/dev/nvidia2 Cores=2-3 Links=0,0,-1,4\n"
              "Name=gpu Type=rtx_3090 File=/dev/nvidia3 Cores=2-3 Links=0,0,4,-1\n") ==
        "links_differ");
}

TEST_CASE("lines of other nodes, and settings that switch a check off, say nothing") {
  CHECK(found(kSlurm,
              changed(kGres, "Name=gpu", "NodeName=other Name=gpu File=/dev/nvidia9\nName=gpu"))
            .empty());
  CHECK(
      found(changed(kSlurm, "CPUs=8", "CPUs=16") + "SlurmdParameters=config_overrides\n").empty());
}
