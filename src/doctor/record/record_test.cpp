#include "doctor/record/record.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.hpp"
#include "doctor/read/bundle_json.hpp"
#include "doctor/record/redact.hpp"
#include "doctor/record/shareable_names.hpp"
#include "doctor/rules/diagnose.hpp"
#include "doctor/tree/tree.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;
using berth::slurp;
using berth::system::TemporaryTree;

namespace record_test {
namespace {

/// A machine with a GPU that is bound to no driver, and a user called marie.
Sources machine(const TemporaryTree& folder) {
  folder.put("proc/modules", "nvidia 1 0 - Live 0x0\n");
  folder.put("home/marie/venv/pyvenv.cfg", "");
  folder.put("proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
  folder.put("proc/sys/kernel/hostname", "gpu-box\n");
  folder.put("etc/passwd", "root:x:0:0::/root:/bin/sh\nmarie:x:1000:1000::/home/marie:/bin/sh\n");
  const std::string gpu = "sys/devices/pci0/0000:01:00.0/";
  folder.put(gpu + "vendor", "0x10de\n");
  folder.put(gpu + "device", "0x2684\n");
  folder.put(gpu + "class", "0x030000\n");
  folder.link("sys/bus/pci/devices/0000:01:00.0", "../../../devices/pci0/0000:01:00.0");
  Sources sources;
  sources.tree = Tree(folder.path);
  sources.kernel_log = std::string(
      "[1.0] Command line: root=/dev/sda1 token=abc\n"
      "[2.0] NVRM: Xid (PCI:0000:01:00): 31, pid=4711, name=train.py, Ch 8\n"
      "[3.0] gpu-box nvidia: marie was here\n");
  sources.driver = driver_not_asked();
  sources.process.environment = Environment{{"USER", "marie"},
                                            {"VIRTUAL_ENV", "/home/marie/venv"},
                                            {"HF_TOKEN", "hf_secret"},
                                            {"CUDA_API_KEY", "k"},
                                            {"CUDA_VISIBLE_DEVICES", "0"}};
  return sources;
}

/// The environment in a bundle, for a user with this home folder.
std::string redacted_of_home(const std::string& home) {
  const TemporaryTree folder, bundle;
  Sources sources = machine(folder);
  sources.process.environment = Environment{{"HOME", home}, {"PATH", home + "/bin:/usr/bin"}};
  REQUIRE(record(sources, bundle.path + "/b"));
  return slurp(bundle.path + "/b/environment").value_or("");
}

}  // namespace

TEST_CASE("a recorded machine is diagnosed as the machine itself") {
  const TemporaryTree folder, bundle;
  Sources sources = machine(folder);
  sources.kernel_log =
      std::string("[2.0] NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n");
  const auto here = diagnose(collect(sources), {});
  REQUIRE(record(sources, bundle.path + "/b"));
  const auto again = from_bundle(bundle.path + "/b");
  REQUIRE(again);
  const auto there = diagnose(collect(*again), {});
  CHECK(there.verdict == here.verdict);
  REQUIRE(there.findings.size() == here.findings.size());
  for (std::size_t i = 0; i < here.findings.size(); ++i) {
    CHECK(there.findings[i].id == here.findings[i].id);
    auto redacted = here.findings[i].evidence;
    for (std::string& line : redacted)  // the bundle has "…" instead of the program's name
      if (const auto at = line.find("train.py"); at != std::string::npos) line.replace(at, 8, "…");
    CHECK(there.findings[i].evidence == redacted);
  }
  CHECK(there.checked == here.checked);
}

TEST_CASE("a bundle of a machine with a host name of two letters has the same findings") {
  const TemporaryTree folder, bundle;
  Sources sources = machine(folder);
  folder.put("proc/sys/kernel/hostname", "vm\n");
  folder.put("etc/hosts", "127.0.0.1\tlocalhost\n127.0.1.1\tvm box\n");
  sources.process.environment = Environment{{"WORLD_SIZE", "16"}, {"LOCAL_WORLD_SIZE", "8"}};
  const auto found = [](const Sources& of) { return diagnose(collect(of), {}, {"RT11"}).findings; };
  REQUIRE(found(sources).size() == 1);
  REQUIRE(record(sources, bundle.path + "/b"));
  const auto again = from_bundle(bundle.path + "/b");
  REQUIRE(again);
  CHECK(found(*again).size() == 1);
  CHECK(slurp(bundle.path + "/b/root/etc/hosts") == "127.0.0.1 localhost\n127.0.1.1 HOST …\n");
}

TEST_CASE("an environment in a home folder is in the bundle") {
  const TemporaryTree folder, bundle;
  Sources sources = machine(folder);
  const std::string site = "home/marie/venv/lib/python3.11/site-packages/";
  folder.put("home/erin/private", "");
  for (const char* name : {"nvidia_nccl_cu11-2.14.3", "nvidia_nccl_cu12-2.27.3"})
    folder.put(site + name + ".dist-info/METADATA", "Name: x\n");
  sources.python = "/home/marie/venv/bin/python";
  const auto names = [](const Sources& of) {
    return of.tree.list("/home/user1/venv/lib/python3.11/site-packages").value_or({});
  };
  REQUIRE(record(sources, bundle.path + "/b"));
  const auto again = from_bundle(bundle.path + "/b");
  REQUIRE(again);
  CHECK(names(*again).size() == 2);
  CHECK(again->tree.list("/home").value_or({}) == std::vector<std::string>{"user1"});
}

TEST_CASE("a folder below a link is not itself a link") {
  const TemporaryTree folder, bundle;
  Sources sources = machine(folder);
  folder.put("usr/local/cuda-12.4/lib64/libcuda.so.1", "");
  folder.link("usr/local/cuda", "cuda-12.4");
  sources.process.environment = Environment{{"LD_LIBRARY_PATH", "/usr/local/cuda/lib64"}};
  REQUIRE(record(sources, bundle.path + "/b"));
  const auto again = from_bundle(bundle.path + "/b");
  REQUIRE(again);
  CHECK(again->tree.exists("/usr/local/cuda/lib64/libcuda.so.1"));
}

TEST_CASE("a bundle has the dpkg entries that rules read, however long the file is") {
  const TemporaryTree folder, bundle;
  Sources sources = machine(folder);
  std::string status = "Package: podman\nStatus: install ok installed\nVersion: 4.3.1\n\n";
  while (status.size() < 300'000)
    status += "Package: inhouse\nStatus: install ok installed\nMaintainer: bob@corp\n\n";
  folder.put("var/lib/dpkg/status", status);
  REQUIRE(record(sources, bundle.path + "/b"));
  CHECK(slurp(bundle.path + "/b/root/var/lib/dpkg/status") ==
        "Package: podman\nStatus: install ok installed\nVersion: 4.3.1\n\n");
}

TEST_CASE("a bundle contains no names, tokens or command lines") {
  const TemporaryTree folder, bundle;
  Sources sources = machine(folder);
  const auto redacted = record(sources, bundle.path + "/b");
  REQUIRE(redacted);
  std::string all;
  for (const char* name :
       {"environment", "kernel.log", "driver.json", "process.json", "nodes.jsonl", "redacted.txt"})
    all += slurp(bundle.path + "/b/" + name).value_or("");
  for (const char* secret : {"marie", "hf_secret", "gpu-box", "abc", "train.py", "=k"}) {
    CAPTURE(secret);
    CHECK(all.find(secret) == std::string::npos);
  }
  CHECK(all.find("VIRTUAL_ENV=/home/user1/venv") != std::string::npos);
  CHECK(all.find("pid=4711, name=…, Ch 8") != std::string::npos);
  CHECK(all.find("HF_TOKEN") != std::string::npos);  // in the list of omitted variables
}

TEST_CASE("a name of two letters is hidden where it names a folder") {
  CHECK(redacted_of_home("/home/li").find("/home/li") == std::string::npos);
  CHECK(redacted_of_home("/data/wu") == "HOME=/data/user1\nPATH=/data/user1/bin:/usr/bin\n");
  Redaction redaction;
  redaction.hide_user("sh");
  CHECK(redaction.apply("/bin/sh -c sh /data/sh/x") == "/bin/sh -c sh /data/user1/x");
}

TEST_CASE("without USER, the user's name is taken from the home folder and hidden") {
  const std::string redacted = redacted_of_home("/scratch/alicexyz");
  CHECK(redacted.find("PATH=/scratch/user") != std::string::npos);
  CHECK(redacted.find("alicexyz") == std::string::npos);
}

TEST_CASE("a mouse's battery is not the laptop's, and its address is not recorded") {
  const TemporaryTree folder, bundle;
  Sources sources = machine(folder);
  folder.put("sys/class/dmi/id/chassis_type", "10\n");
  folder.put("sys/class/power_supply/AC/type", "Mains\n");
  folder.put("sys/class/power_supply/AC/online", "0\n");
  const std::string mouse = "sys/devices/hid/power_supply/hid-a4:c1:38:11:22:33-battery/";
  folder.put(mouse + "type", "Battery\n");
  folder.put(mouse + "scope", "Device\n");
  folder.put(mouse + "online", "1\n");
  folder.link("sys/class/power_supply/hid-a4:c1:38:11:22:33-battery",
              "../../devices/hid/power_supply/hid-a4:c1:38:11:22:33-battery");
  CHECK(collect(sources).machine.on_battery.value_or(false));
  REQUIRE(record(sources, bundle.path + "/b"));
  CHECK(berth::list_folder(bundle.path + "/b/root/sys/class/power_supply") ==
        std::vector<std::string>{"AC"});
  CHECK(berth::list_folder(bundle.path + "/b/root/sys/devices/hid").empty());
  const auto again = from_bundle(bundle.path + "/b");
  REQUIRE(again);
  CHECK(collect(*again).machine.on_battery.value_or(false));
}

TEST_CASE("a text that cannot be redacted is left out, and counts as not checked") {
  const TemporaryTree folder, bundle;
  Sources sources = machine(folder);
  folder.put("etc/docker/daemon.json", std::string("{\"secret\": 1}\0", 15));
  folder.put("etc/containerd/config.toml", std::string(400'000, '#') + "secret\nversion = 3\n");
  const auto redacted = record(sources, bundle.path + "/b");
  REQUIRE(redacted);
  CHECK(!slurp(bundle.path + "/b/root/etc/docker/daemon.json"));
  CHECK(redacted->back().find("1") != std::string::npos);
  const auto again = from_bundle(bundle.path + "/b");
  REQUIRE(again);
  CHECK(collect(*again).container.engines.daemon_json.is_unreadable());
  // The reader cut this file off at its limit. What it has read is redacted all the same.
  CHECK(slurp(bundle.path + "/b/root/etc/containerd/config.toml").value_or("x").find("secret") ==
        std::string::npos);
}

TEST_CASE("a folder that is not empty is refused") {
  const TemporaryTree folder, bundle;
  bundle.put("b/mine", "x");
  Sources sources = machine(folder);
  const auto redacted = record(sources, bundle.path + "/b");
  REQUIRE(!redacted);
  CHECK(redacted.error().id == "E0804");
}

}  // namespace record_test
