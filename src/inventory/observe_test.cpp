#include "inventory/observe.hpp"

#include <doctest/doctest.h>
#include <test_paths.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#include "system/temporary_tree.hpp"

using namespace berth;
using namespace berth::inventory;

namespace {

/// Scans a recorded machine. No library of the machine that runs the test is used.
Sources recorded(const std::string& machine) {
  const std::string root = std::string(BERTH_TEST_MACHINES) + "/" + machine;
  Sources sources;
  sources.roots = {root + "/proc", root + "/sys", root + "/dev", root + "/etc", root + "/proc"};
  sources.nvml_library.clear();
  sources.opencl_library.clear();
  return sources;
}

bool has_note(const model::Snapshot& snapshot, const std::string& part) {
  return std::any_of(snapshot.notes.begin(), snapshot.notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("if nothing can be read, the answer says so") {
  const model::Snapshot snapshot = observe(recorded("no-such-machine"), {});
  REQUIRE(snapshot.devices.size() == 1);
  CHECK(snapshot.devices[0].kind == model::DeviceKind::kCpu);
  CHECK(snapshot.devices[0].index == 0);
  CHECK(snapshot.driver.state == "none");
  CHECK(snapshot.processes.empty());
  CHECK(has_note(snapshot, "no-such-machine/proc"));
}

TEST_CASE("this machine is seen, and its CPU is the last device") {
  Sources sources;
  sources.nvml_library.clear();
  sources.opencl_library.clear();
  const auto before = std::chrono::system_clock::now();
  const model::Snapshot snapshot = observe(sources, {});
  REQUIRE(!snapshot.devices.empty());
  for (std::size_t i = 0; i < snapshot.devices.size(); ++i)
    CHECK(snapshot.devices[i].index == static_cast<int>(i));
  CHECK(snapshot.devices.back().kind == model::DeviceKind::kCpu);
  CHECK(snapshot.host.cpu.cores_usable >= 1);
  CHECK(!snapshot.host.simulated);
  const std::chrono::milliseconds taken(snapshot.unix_milliseconds);
  CHECK(taken >= std::chrono::duration_cast<std::chrono::milliseconds>(before.time_since_epoch()));
  CHECK(!has_note(snapshot, "cannot be read"));
}

TEST_CASE("a simulated machine is called one") {
  Sources sources = recorded("processes-host");
  sources.simulated = true;
  CHECK(observe(sources, {}).host.simulated);
}

TEST_CASE("AMD GPUs, TPUs and unmanaged accelerators stand in one list with the CPU") {
  const model::Snapshot amd = observe(recorded("amd-mi300x"), {});
  REQUIRE(amd.devices.size() >= 2);
  CHECK(amd.devices[0].vendor == model::Vendor::kAmd);
  CHECK(amd.devices.back().kind == model::DeviceKind::kCpu);
  const model::Snapshot tpu = observe(recorded("tpu-v4"), {});
  CHECK(tpu.devices[0].kind == model::DeviceKind::kTpu);
  // no interface reports which processes use a TPU, so it must not count as free
  CHECK(tpu.devices[0].processes_unknown);
  const model::Snapshot others = observe(recorded("accelerators"), {});
  CHECK(others.devices[0].kind == model::DeviceKind::kAccelerator);
  CHECK(!others.devices[0].managed);
}

TEST_CASE("users of an AMD GPU are read from the DRM clients, and its other memory is explained") {
  const system::TemporaryTree tree;
  tree.put("proc/4121/stat",
           "4121 (python) S 1 1 1 0 -1 4194304 0 0 0 0 700 50 0 0 20 0 1 0 9000000 0 5 0\n");
  tree.put("proc/4121/status", "Uid:\t1000\t1000\t1000\t1000\nVmRSS:\t10 kB\n");
  tree.put("proc/4121/cmdline", std::string("python\0train.py\0", 16));
  tree.put("proc/uptime", "100000.00 1.00\n");
  tree.put("etc/passwd", "lin:x:1000:1000::/home/lin:/bin/sh\n");
  tree.link("proc/4121/fd/5", "/dev/dri/renderD128");
  tree.put("proc/4121/fdinfo/5",
           "drm-driver:\tamdgpu\ndrm-client-id:\t41\ndrm-pdev:\t0000:03:00.0\n"
           "drm-resident-vram:\t524288 KiB\ndrm-engine-compute:\t7000000 ns\n");
  Sources sources = recorded("amd-7900xtx");
  const std::string sys = sources.roots.sys;
  sources.roots = tree.roots();
  sources.roots.sys = sys;
  const model::Snapshot snapshot = observe(sources, {});
  REQUIRE(snapshot.processes.size() == 1);
  const model::DeviceProcess& row = snapshot.processes[0];
  CHECK(row.device == 0);
  CHECK(row.pid == 4121);
  CHECK(row.user == "lin");
  CHECK(row.command == "python train.py");
  CHECK(*row.memory_bytes == 512U << 20U);
  REQUIRE(snapshot.unattributed.size() == 1);
  CHECK(snapshot.unattributed[0].memory_bytes == 1883164672 - (512U << 20U));
  CHECK(snapshot.unattributed[0].cause == "unknown");

  Options without;
  without.processes = false;
  const model::Snapshot none = observe(sources, without);
  CHECK(none.processes.empty());
  CHECK(none.unattributed.empty());
}

TEST_CASE("an NVIDIA GPU that was given to a virtual machine is seen and not managed") {
  const system::TemporaryTree tree;
  const std::string device = "sys/bus/pci/devices/0000:41:00.0";
  tree.put(device + "/class", "0x030200\n");
  tree.put(device + "/vendor", "0x10de\n");
  tree.put(device + "/device", "0x2330\n");
  tree.link(device + "/driver", "../../../bus/pci/drivers/vfio-pci");
  Sources sources;
  sources.roots = tree.roots();
  sources.nvml_library.clear();
  const model::Snapshot snapshot = observe(sources, {});
  REQUIRE(snapshot.devices.size() == 2);
  CHECK(snapshot.devices[0].vendor == model::Vendor::kNvidia);
  CHECK(!snapshot.devices[0].managed);
  CHECK(!snapshot.devices[0].note.empty());
  CHECK(snapshot.devices[0].health == model::Health::kNotChecked);
}

TEST_CASE(
    "OpenCL is queried on request, or if no other device is found and a platform is installed") {
  const auto opencl_devices = [](const Sources& sources, OpenCl when) {
    Options options;
    options.opencl = when;
    const model::Snapshot snapshot = observe(sources, options);
    CHECK(snapshot.devices.back().kind == model::DeviceKind::kCpu);
    return std::count_if(snapshot.devices.begin(), snapshot.devices.end(), [](const auto& device) {
      return device.kind == model::DeviceKind::kOpenCl;
    });
  };
  ::setenv("FAKE_OPENCL", "", 1);
  Sources sources = recorded("two-nodes");
  sources.opencl_library = FAKE_OPENCL_LIBRARY;
  CHECK(opencl_devices(sources, OpenCl::kAlways) == 1);
  CHECK(opencl_devices(sources, OpenCl::kNever) == 0);
  CHECK(opencl_devices(sources, OpenCl::kAuto) == 0);  // the recorded /etc lists no OpenCL platform
  const system::TemporaryTree tree;
  tree.put("etc/OpenCL/vendors/fake.icd", "libfake.so\n");
  sources.roots.etc = tree.roots().etc;
  CHECK(opencl_devices(sources, OpenCl::kAuto) == 1);
  Sources with_gpu = recorded("amd-7900xtx");
  with_gpu.opencl_library = FAKE_OPENCL_LIBRARY;
  with_gpu.roots.etc = sources.roots.etc;
  CHECK(opencl_devices(with_gpu, OpenCl::kAuto) == 0);
  CHECK(has_note(observe(with_gpu, {}), "--opencl"));
}

TEST_CASE("an OpenCL platform that crashes is a note, and the look goes on") {
  ::setenv("FAKE_OPENCL", "crash", 1);
  Sources sources = recorded("two-nodes");
  sources.opencl_library = FAKE_OPENCL_LIBRARY;
  Options options;
  options.opencl = OpenCl::kAlways;
  const model::Snapshot snapshot = observe(sources, options);
  ::setenv("FAKE_OPENCL", "", 1);
  REQUIRE(!snapshot.notes.empty());
  CHECK(snapshot.notes.back().find("(E0703)") != std::string::npos);
  CHECK(snapshot.devices.size() == 1);
}
