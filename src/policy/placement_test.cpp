#include "policy/placement.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <sstream>

#include "base/units.hpp"
#include "policy/machines_for_tests.hpp"
#include "policy/visible.hpp"

using berth::Result;
using berth::model::Placement;
using berth::model::Request;
using berth::policy::place;
using namespace berth::policy::machines;

namespace {

using Change = std::function<void(Snapshot&, Request&)>;
using Changes = std::vector<Change>;

// The following functions return changes of the machine.
Change uses(int device, std::uint64_t gib, const std::string& partition = "") {
  return [=](Snapshot& s, Request&) { use(s, device, gib, true, partition); };
}
Change draws(int device, std::uint64_t gib) {
  return [=](Snapshot& s, Request&) { use(s, device, gib, false); };
}
Change is(int device, Health health) {
  return
      [=](Snapshot& s, Request&) { s.devices[static_cast<std::size_t>(device)].health = health; };
}
Change forbidden(int device) {
  return [=](Snapshot& s, Request&) {
    auto& it = s.devices[static_cast<std::size_t>(device)];
    it.health = Health::kNotChecked;
    berth::model::set_all_absent(it.readings, berth::model::Absence::kNoPermission);
  };
}
Change mode(int device, const char* mode) {
  return [=](Snapshot& s, Request&) {
    s.devices[static_cast<std::size_t>(device)].compute_mode = mode;
  };
}
Change used(int device, std::uint64_t mib) {
  return [=](Snapshot& s, Request&) {
    s.devices[static_cast<std::size_t>(device)].readings.memory_used_bytes = mib << 20;
  };
}
Change bus(int device, const char* address) {
  return [=](Snapshot& s, Request&) {
    s.devices[static_cast<std::size_t>(device)].pci_address = address;
  };
}
Change nobody_holds(std::uint64_t gib, const char* cause) {
  return [=](Snapshot& s, Request&) { s.unattributed.push_back({0, gib * kGiB, cause, {}}); };
}
Change unreadable(int device) {
  return [=](Snapshot& s, Request&) {
    s.devices[static_cast<std::size_t>(device)].processes_unknown = berth::model::Absence::kFailed;
  };
}
Change loaded(int device, double percent) {
  return [=](Snapshot& s, Request&) {
    s.devices[static_cast<std::size_t>(device)].readings.utilization_percent = percent;
  };
}
// The following functions return changes of the request.
Change gpus(int count) {
  return [=](Snapshot&, Request& r) { r.gpus = count; };
}
Change memory(std::uint64_t gib) {
  return [=](Snapshot&, Request& r) { r.memory_bytes = gib * kGiB; };
}
Change mig_only() {
  return [](Snapshot&, Request& r) { r.mig_only = true; };
}
Change named(const char* devices) {
  return [=](Snapshot&, Request& r) { r.devices = {devices}; };
}
Change inherits(std::optional<std::string> Request::*variable, const char* value) {
  return [=](Snapshot&, Request& r) { r.*variable = value; };
}
Change cuda(const char* value) {
  return inherits(&Request::inherited_cuda, value);
}
Change rocr(const char* value) {
  return inherits(&Request::inherited_rocr, value);
}
Change hip(const char* value) {
  return inherits(&Request::inherited_hip, value);
}

/// The chosen units or the error's id: "0,2", "0:MIG-a1-0000", "cpu", "E0412".
std::string shown(const Result<Placement>& placement) {
  if (!placement) return placement.error().id;
  std::string out;
  for (std::size_t i = 0; i < placement->devices.size(); ++i) {
    out += (i == 0 ? "" : ",") + std::to_string(placement->devices[i]);
    if (!placement->partitions[i].empty()) out += ":" + placement->partitions[i];
  }
  return out.empty() ? "cpu" : out;
}

Snapshot amd(int count) {
  return machine(
      std::vector<Device>(static_cast<std::size_t>(count), gpu(Vendor::kAmd, "MI210", 64)));
}
Snapshot mixed_vendors() {
  const Device l4 = gpu(Vendor::kNvidia, "NVIDIA L4", 24);
  const Device mi210 = gpu(Vendor::kAmd, "MI210", 64);
  return machine({l4, l4, mi210, mi210, mi210});
}
Snapshot mig() {
  const Device a100 = gpu(Vendor::kNvidia, "NVIDIA A100", 40);
  return machine({with_mig(a100, {5, 20, 10}, "a"), a100});
}
Device integrated() {
  Device device = gpu(Vendor::kIntel, "Intel Iris Xe", 0);
  device.memory_unified = true;
  return device;
}
Device chip() {
  Device device = gpu(Vendor::kGoogle, "TPU v5e", 16);
  device.kind = DeviceKind::kTpu;
  return device;
}
Device gb10() {
  Device device = gpu(Vendor::kNvidia, "NVIDIA GB10", 0);
  device.memory_unified = true;
  device.readings.memory_total_bytes = berth::model::Absence::kNotSupported;
  device.readings.memory_used_bytes = berth::model::Absence::kNotSupported;
  return device;
}
Device of_kind(DeviceKind kind, bool managed) {
  Device device = gpu(Vendor::kOther, "Thing 910", 8);
  device.kind = kind;
  device.managed = managed;
  return device;
}

struct Row {
  const char* what;
  Snapshot machine;
  Changes changes;
  const char* expected;
};

void check(std::vector<Row> rows) {
  for (Row& row : rows) {
    Request request;
    for (const Change& change : row.changes) change(row.machine, request);
    CAPTURE(row.what);
    CHECK(shown(place(request, row.machine)) == row.expected);
  }
}

/// Four GPUs on two NUMA nodes. NVLink bridges join GPUs 0 and 2, and 1 and 3. Each bridge connects
/// the two nodes.
Snapshot bridged() {
  Snapshot snapshot = nvidia(4, 2);
  for (std::size_t i = 0; i < 4; ++i)
    snapshot.devices[i].nvlink_peers = {{snapshot.devices[(i + 2) % 4].pci_address, 4}};
  return snapshot;
}

/// Four GPUs on one NUMA node. One PCIe switch joins GPUs 0 and 2, another joins 1 and 3.
Snapshot switched() {
  Snapshot snapshot = nvidia(4);
  for (std::size_t i = 0; i < 4; ++i)
    snapshot.devices[i].pci_path = (i % 2 == 0 ? "pci0000:00/0000:00:01.0/0000:05:00.0/0000:06:0"
                                               : "pci0000:00/0000:00:03.0/0000:07:00.0/0000:08:0") +
                                   std::to_string(i) + ".0";
  return snapshot;
}

const Device kRadeon = gpu(Vendor::kAmd, "RX 7900", 24);
const Device kGeforce = gpu(Vendor::kNvidia, "RTX 4060", 8);
const Device kOther = gpu(Vendor::kNvidia, "B", 24);

}  // namespace

TEST_CASE("without options a job gets the best free device, and waits where all are busy") {
  check({
      {"no device", bare(), {}, "cpu"},
      {"one free GPU", nvidia(1), {}, "0"},
      {"the first of equals", nvidia(8), {}, "0"},
      {"the first that is free", nvidia(3), {uses(0, 10)}, "1"},
      {"less used memory first", nvidia(2), {used(0, 600)}, "1"},
      {"a driver's own few MiB do not count", nvidia(2), {used(0, 9)}, "0"},
      {"all in use: it waits", nvidia(3), {uses(0, 60), uses(1, 20), uses(2, 40)}, "E0412"},
      {"a whole GPU before a partition", mig(), {}, "1"},
      {"the largest free partition", mig(), {uses(1, 1)}, "0:MIG-a1-0000"},
      {"a partition that was asked for", mig(), {mig_only()}, "0:MIG-a1-0000"},
      {"the smallest with so much memory", mig(), {mig_only(), memory(4)}, "0:MIG-a0-0000"},
      {"a partition is waited for, also beside a free GPU",
       mig(),
       {mig_only(), uses(0, 3, "MIG-a0-0000"), uses(0, 3, "MIG-a1-0000"),
        uses(0, 3, "MIG-a2-0000")},
       "E0412"},
      {"a GPU where there are no partitions", nvidia(1), {mig_only()}, "0"},
      {"a named GPU, not a partition", mig(), {mig_only(), named("1")}, "1"},
      {"no partition in use", mig(), {uses(1, 1), uses(0, 3, "MIG-a1-0000")}, "0:MIG-a2-0000"},
      {"a card before processor graphics", machine({integrated(), kRadeon}), {}, "1"},
      {"a card in use is waited for", machine({integrated(), kRadeon}), {uses(1, 9)}, "E0412"},
      {"a busy card is not replaced by them",
       machine({integrated(), kRadeon}),
       {uses(1, 9), gpus(1)},
       "E0412"},
      {"they and a card are one GPU", machine({integrated(), kRadeon}), {gpus(2)}, "E0411"},
      {"processor graphics by name", machine({integrated(), kRadeon}), {named("0")}, "0"},
      {"processor graphics by variable",
       machine({integrated(), kRadeon}),
       {inherits(&Request::inherited_ze, "0")},
       "0"},
      {"processor graphics alone", machine({integrated()}), {}, "0"},
      {"NVIDIA with unified memory is a GPU like others", machine({gb10()}), {}, "0"},
      {"OpenCL is not chosen", machine({of_kind(DeviceKind::kOpenCl, true)}), {}, "cpu"},
      {"not managed", machine({of_kind(DeviceKind::kAccelerator, false)}), {}, "cpu"},
      {"a TPU chip where there is no GPU", machine({chip(), chip()}), {}, "0"},
      {"asked for the CPU", nvidia(2), {gpus(0)}, "cpu"},
  });
}

TEST_CASE("a device that is not well comes later, or never") {
  check({
      {"healthy before degraded", nvidia(2), {is(0, Health::kDegraded)}, "1"},
      {"degraded before asleep",
       nvidia(2),
       {is(0, Health::kAsleep), is(1, Health::kDegraded)},
       "1"},
      {"asleep is usable: it wakes", nvidia(1), {is(0, Health::kAsleep)}, "0"},
      {"a sleeping card before processor graphics",
       machine({integrated(), kGeforce}),
       {is(1, Health::kAsleep)},
       "1"},
      {"never a lost one", nvidia(2), {is(0, Health::kLost)}, "1"},
      {"never a silent one", nvidia(2), {is(0, Health::kNoAnswer)}, "1"},
      {"never one that may not be asked", nvidia(2), {forbidden(0)}, "1"},
      {"only such ones: the CPU", nvidia(1), {forbidden(0)}, "cpu"},
      {"only lost ones: the CPU", nvidia(1), {is(0, Health::kLost)}, "cpu"},
      {"prohibited is out", nvidia(2), {mode(0, "prohibited")}, "1"},
      {"exclusive and taken is waited for",
       nvidia(1),
       {mode(0, "exclusive process"), uses(0, 1)},
       "E0412"},
      {"exclusive and free is in", nvidia(1), {mode(0, "exclusive process")}, "0"},
  });
}

TEST_CASE("a number of GPUs is a number of free ones that go together") {
  check({
      {"none here", bare(), {gpus(1)}, "E0411"},
      {"more than are here", nvidia(2), {gpus(3)}, "E0411"},
      {"two of four", nvidia(4), {gpus(2)}, "0,1"},
      {"busy ones left out", nvidia(4), {uses(0, 1), uses(2, 1), gpus(2)}, "1,3"},
      {"all busy", nvidia(2), {uses(0, 1), uses(1, 1), gpus(1)}, "E0412"},
      {"too few free", nvidia(4), {uses(0, 1), uses(1, 1), gpus(3)}, "E0412"},
      {"one NUMA node before low indices", nvidia(4, 2), {uses(0, 1), gpus(2)}, "2,3"},
      {"one model before one node", machine({kGeforce, kOther, kOther}, 2), {gpus(2)}, "1,2"},
      {"one vendor", mixed_vendors(), {gpus(3)}, "2,3,4"},
      {"never two vendors", mixed_vendors(), {gpus(4)}, "E0420"},
      {"neighbours on the bus",
       nvidia(3),
       {bus(0, "0000:01:00.0"), bus(1, "0000:81:00.0"), bus(2, "0000:82:00.0"), gpus(2)},
       "1,2"},
      {"NVLink before one NUMA node", bridged(), {gpus(2)}, "0,2"},
      {"the pair of bridged GPUs that is free", bridged(), {uses(0, 1), gpus(2)}, "1,3"},
      {"no pair is free: one node", bridged(), {uses(0, 1), uses(1, 1), gpus(2)}, "2,3"},
      {"a PCIe switch before neighbours on the bus", switched(), {gpus(2)}, "0,2"},
      {"one GPU leaves the free pair alone", switched(), {uses(1, 1), gpus(1)}, "3"},
      {"without an option too", bridged(), {uses(3, 1)}, "1"},
      {"healthy ones before neighbours",
       nvidia(4, 2),
       {is(0, Health::kDegraded), is(3, Health::kDegraded), gpus(2)},
       "1,2"},
      {"two GPUs are never two partitions", mig(), {gpus(2)}, "E0411"},
      {"MIG on without partitions", machine({with_mig(kGeforce, {}, "a")}), {gpus(1)}, "E0420"},
      {"a lost one never comes free", nvidia(2), {is(0, Health::kLost), gpus(2)}, "E0420"},
      {"a silent one may answer", nvidia(2), {is(0, Health::kNoAnswer), gpus(2)}, "E0412"},
      {"lost, with memory asked for",
       nvidia(2),
       {is(0, Health::kLost), gpus(2), memory(4)},
       "E0420"},
  });
}

TEST_CASE("a request for too many GPUs is refused with the largest possible number, busy or not") {
  Request nine;
  nine.gpus = 9;
  const auto hint = [&](const Snapshot& s) { return place(nine, s).error().hint; };
  CHECK(hint(nvidia(4)) == "berth run --gpus 4 …");
  Snapshot busy = nvidia(4);
  for (int device = 0; device < 4; ++device) use(busy, device, 20, true, "");
  CHECK(hint(busy) == "berth run --gpus 4 …");
  busy.devices[1].health = Health::kLost;
  CHECK(hint(busy) == "berth run --gpus 3 …");
  CHECK(hint(mig()) == "berth run --gpus 1 …");
}

TEST_CASE("what makes a device busy") {
  check({
      {"a desktop does not", nvidia(1), {draws(0, 0), used(0, 700), gpus(1)}, "0"},
      {"heavy graphics do", nvidia(1), {draws(0, 9), gpus(1)}, "E0412"},
      {"memory nobody accounts for does",
       nvidia(1),
       {nobody_holds(30, "other_namespace"), gpus(1)},
       "E0412"},
      {"except in WSL, where Windows always holds some",
       nvidia(1),
       {nobody_holds(30, "not_reported"), [](Snapshot& s, Request&) { s.host.wsl = true; },
        gpus(1)},
       "0"},
      {"what the driver keeps does not",
       nvidia(1),
       {nobody_holds(30, "driver_reserve"), gpus(1)},
       "0"},
      {"processes that cannot be read do", nvidia(1), {unreadable(0), gpus(1)}, "E0412"},
      {"also without options", nvidia(1), {unreadable(0)}, "E0412"},
      {"so are those of partitions",
       machine({with_mig(kGeforce, {5}, "a")}),
       {unreadable(0), gpus(1)},
       "E0412"},
      {"by name it can be had", nvidia(1), {unreadable(0), named("0")}, "0"},
      {"an MPS client does",
       nvidia(1),
       {draws(0, 1), [](Snapshot& s, Request&) { s.processes[0].kind.mps = true; }, gpus(1)},
       "E0412"},
  });
}

TEST_CASE("a card whose users only root sees can be had by name, and the refusal says how") {
  const auto card = [] {
    Device device = gpu(Vendor::kIntel, "Intel Arc A770", 16);
    device.processes_unknown = berth::model::Absence::kNoPermission;
    device.readings.memory_used_bytes = berth::model::Absence::kNoPermission;
    return device;
  };
  const Snapshot s = machine({integrated(), card(), card()});
  const auto hint = [&](const std::vector<Change>& changes) {
    Snapshot here = s;
    Request request;
    for (const Change& change : changes) change(here, request);
    const auto placed = place(request, here);
    return placed ? shown(placed) : placed.error().hint;
  };
  const std::string root = "\nsudo berth serve --system sees the processes of all users";
  CHECK(hint({gpus(1)}) == "berth run --devices 1 …" + root);
  CHECK(hint({memory(1)}) == "berth run --devices 1 …" + root);
  CHECK(hint({gpus(2)}) == "berth run --devices 1,2 …" + root);
  CHECK(hint({}).rfind("berth run --devices 1 …" + root + "\nberth run --cpu …", 0) == 0);
  CHECK(hint({named("1")}) == "1");
  // The driver lists no processes even for root, so the hint does not suggest root's broker.
  CHECK(hint({[](Snapshot& here, Request& request) {
          here = nvidia(1);
          here.devices[0].processes_unknown = berth::model::Absence::kNoPermission;
          request.gpus = 1;
        }}).find("sudo") == std::string::npos);
}

TEST_CASE("memory is shared on the freest device that nobody uses, then on the least used") {
  const auto reserved = [](Snapshot& s, Request&) {
    s.devices[0].readings.memory_reserved_bytes = 2 * kGiB;
  };
  const auto silent = [](Snapshot& s, Request&) {
    s.devices[0].readings.memory_used_bytes = berth::model::Absence::kNoPermission;
  };
  check({
      {"the most free memory", nvidia(3), {used(0, 9000), used(2, 700), memory(30)}, "1"},
      {"nobody's before somebody's", nvidia(2), {uses(0, 1), used(1, 9000), memory(30)}, "1"},
      {"of those in use the least used",
       nvidia(3),
       {uses(0, 20), uses(1, 45), uses(2, 40), loaded(0, 97), loaded(1, 12), loaded(2, 55),
        memory(30)},
       "1"},
      {"then the most free memory",
       nvidia(3),
       {uses(0, 40), uses(1, 20), uses(2, 30), loaded(0, 93), loaded(1, 97), loaded(2, 99),
        memory(30)},
       "1"},
      {"not known is in use", nvidia(2), {unreadable(0), used(1, 9000), memory(30)}, "1"},
      {"none has so much free", nvidia(2), {uses(0, 20), uses(1, 9), memory(75)}, "E0412"},
      {"none has so much at all", nvidia(2), {uses(0, 20), memory(81)}, "E0420"},
      {"nor have so many",
       machine({kGeforce, gpu(Vendor::kNvidia, "NVIDIA H100", 80)}),
       {gpus(2), memory(60)},
       "E0420"},
      {"no partition has so much", mig(), {memory(200)}, "E0420"},
      {"what is set already leaves no larger one",
       machine({kGeforce, gpu(Vendor::kNvidia, "NVIDIA H100", 80)}),
       {cuda("0"), memory(60)},
       "E0420"},
      {"shared devices count", nvidia(1), {uses(0, 20), memory(60)}, "0"},
      {"several with --gpus", nvidia(3), {uses(1, 70), gpus(2), memory(50)}, "0,2"},
      {"a small partition for a small job", mig(), {memory(4)}, "0:MIG-a0-0000"},
      {"unified memory: what the host has", machine({gb10()}), {memory(90)}, "0"},
      {"unified memory: no more than that", machine({gb10()}), {memory(101)}, "E0412"},
      {"reserved memory is not free", nvidia(1), {reserved, memory(79)}, "E0420"},
      {"who does not tell promises nothing", nvidia(1), {silent, memory(1)}, "E0412"},
      {"no device, no memory", bare(), {memory(1)}, "E0411"},
      {"exclusive is not shared",
       nvidia(1),
       {mode(0, "exclusive process"), uses(0, 1), memory(1)},
       "E0412"},
  });
}

TEST_CASE("a device that only OpenCL lists is given if it is named, for a part of its memory") {
  const Change share = [](Snapshot&, Request& r) { r.share_permille = 300; };
  const Snapshot one = machine({of_kind(DeviceKind::kOpenCl, true)});
  const Change silent = [](Snapshot& s, Request&) {
    s.devices[0].readings.memory_used_bytes = berth::model::Absence::kNotSupported;
  };
  check({
      {"by name and memory", one, {named("0"), memory(4)}, "0"},
      {"and share", one, {named("0"), memory(4), share}, "0"},
      {"not by memory alone", one, {memory(4)}, "E0411"},
      {"more than it has", one, {named("0"), memory(9)}, "E0420"},
      {"in use is not known", one, {named("0"), silent, memory(4)}, "E0412"},
  });
}

TEST_CASE("named devices are used as named") {
  check({
      {"in the order given", nvidia(4), {named("3,1")}, "3,1"},
      {"by uuid and address", nvidia(4), {named("GPU-aaaa0002,0000:20:00.0")}, "2,1"},
      {"in use, but named", nvidia(2), {uses(1, 9), named("1")}, "1"},
      {"unknown", nvidia(2), {named("7")}, "E0413"},
      {"ambiguous", nvidia(2), {named("GPU-aaaa")}, "E0414"},
      {"nonsense", nvidia(2), {named("all of them")}, "E0415"},
      {"lost", nvidia(2), {is(1, Health::kLost), named("1")}, "E0419"},
      {"forbidden, but named", nvidia(2), {forbidden(1), named("1")}, "1"},
      {"silent, but named", nvidia(2), {is(1, Health::kNoAnswer), named("1")}, "1"},
      {"prohibited", nvidia(2), {mode(1, "prohibited"), named("1")}, "E0419"},
      {"the CPU by its index", nvidia(2), {named("2")}, "cpu"},
      {"the CPU beside a GPU", nvidia(2), {named("0,2")}, "E0418"},
      {"OpenCL", machine({of_kind(DeviceKind::kOpenCl, true)}), {named("0")}, "E0418"},
      {"not managed", machine({of_kind(DeviceKind::kAccelerator, false)}), {named("0")}, "E0418"},
      {"some of the named ones", nvidia(4), {uses(1, 1), named("1,2,3"), gpus(2)}, "2,3"},
      {"more than named", nvidia(4), {named("1"), gpus(2)}, "E0418"},
      {"with enough memory", nvidia(2), {uses(1, 30), named("1"), memory(40)}, "1"},
      {"without enough memory", nvidia(2), {uses(1, 30), named("1"), memory(60)}, "E0412"},
      {"never with enough memory", nvidia(2), {named("1"), memory(90)}, "E0420"},
      {"a partition by its uuid", mig(), {named("MIG-a2-0000")}, "0:MIG-a2-0000"},
      {"with MIG on: its best partition", mig(), {named("0")}, "0:MIG-a1-0000"},
      {"a partition and more", mig(), {named("0,1")}, "E0418"},
  });
}

TEST_CASE("an existing CUDA_VISIBLE_DEVICES limits the choice") {
  check({
      {"index", nvidia(4), {cuda("2,3")}, "2"},
      {"uuid", nvidia(4), {cuda("GPU-aaaa0003")}, "3"},
      {"-1", nvidia(4), {cuda("-1")}, "cpu"},
      {"empty", nvidia(4), {cuda("")}, "cpu"},
      {"Slurm's NoDevFiles", nvidia(4), {cuda("NoDevFiles")}, "cpu"},
      {"a bad token ends the list", nvidia(4), {uses(2, 1), cuda("2,9,3"), gpus(1)}, "E0412"},
      {"so does a blank", nvidia(4), {uses(2, 1), cuda("2, 3"), gpus(1)}, "E0412"},
      {"so does a negative number", nvidia(4), {cuda("3,-1,0"), gpus(2)}, "E0416"},
      {"twice the same is none", nvidia(4), {cuda("1,1")}, "cpu"},
      {"too small", nvidia(4), {cuda("1"), gpus(2)}, "E0416"},
      {"a named one outside", nvidia(4), {cuda("1"), named("0")}, "E0416"},
      {"a MIG partition", mig(), {cuda("MIG-a2-0000")}, "0:MIG-a2-0000"},
      {"as old drivers name it", mig(), {cuda("MIG-GPU-aaaa0000-1111-2222/9/0")}, "0:MIG-a2-0000"},
      {"an index with MIG is its first partition", mig(), {cuda("0")}, "0:MIG-a0-0000"},
      {"it names NVIDIA only",
       mixed_vendors(),
       {uses(0, 1), uses(1, 1), cuda("0,1"), gpus(1)},
       "E0412"},
      {"a variable where there is no GPU", bare(), {cuda("0")}, "cpu"},
  });
}

TEST_CASE("other vendors' variables are read as their runtimes read them") {
  const Device max = gpu(Vendor::kIntel, "Max", 48);
  check({
      {"ROCr counts AMD only", mixed_vendors(), {rocr("1"), cuda("-1")}, "3"},
      {"both hidden", mixed_vendors(), {rocr("-1"), cuda("-1")}, "cpu"},
      {"HIP counts what ROCr left", mixed_vendors(), {rocr("1,2"), hip("1")}, "4"},
      {"Slurm's equal numbers mean the same", amd(2), {rocr("1"), hip("1"), cuda("1")}, "1"},
      {"HIP heeds CUDA's variable on AMD alone", amd(2), {cuda("1")}, "1"},
      {"Level Zero, with a tile",
       machine({max, max}),
       {inherits(&Request::inherited_ze, "1.0")},
       "1"},
      {"Level Zero without a mask", machine({max}), {inherits(&Request::inherited_ze, "")}, "0"},
      {"TPU chips",
       machine({chip(), chip(), chip()}),
       {inherits(&Request::inherited_tpu, "2")},
       "2"},
      {"a named TPU beside GPUs' variable", machine({chip()}), {cuda("0"), named("0")}, "0"},
      {"and beside no GPU", machine({chip()}), {cuda("-1"), named("0")}, "0"},
      {"a TPU that nobody names", machine({chip()}), {cuda("0")}, "cpu"},
      {"a TPU that its own variable leaves out",
       machine({chip(), chip()}),
       {cuda("0"), inherits(&Request::inherited_tpu, "1"), named("0")},
       "E0416"},
  });
}

TEST_CASE("a refusal says who holds what and names a command that works now") {
  Snapshot s = nvidia(2);
  use(s, 0, 70);
  use(s, 1, 20);
  Request request;
  request.gpus = 1;
  const auto refused = place(request, s);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.rfind("0 of 2 GPUs are free, 1 wanted\n", 0) == 0);
  CHECK(refused.error().message.find("GPU 0: zhao (pid 4121, python train.py) 70.0 GiB") !=
        std::string::npos);
  CHECK(refused.error().hint == "berth run --memory 60GiB …");
  Request hint;
  hint.memory_bytes = 60 * kGiB;
  CHECK(shown(place(hint, s)) == "1");
}

TEST_CASE("a placement on several GPUs says how they are connected") {
  const auto reasons = [](const Snapshot& machine, int count) {
    Request request;
    request.gpus = count;
    const auto placement = place(request, machine);
    REQUIRE(placement);
    std::string all;
    for (const std::string& reason : placement->reasons) all += reason + "\n";
    return all;
  };
  CHECK(reasons(bridged(), 2).find("NVLink, 4 links") != std::string::npos);
  CHECK(reasons(bridged(), 3).find("between NUMA nodes") != std::string::npos);
  CHECK(reasons(switched(), 2).find("one PCIe switch") != std::string::npos);
  CHECK(reasons(bridged(), 1).find("connection") == std::string::npos);
}

TEST_CASE("a placement on different GPU models says so") {
  const auto said = [](const Snapshot& s) {
    Request request;
    request.gpus = 2;
    const auto placement = place(request, s);
    REQUIRE(placement);
    return std::count(placement->reasons.begin(), placement->reasons.end(),
                      "these GPUs are of different models: the slowest limits the speed");
  };
  CHECK(said(machine({kGeforce, kOther})) == 1);
  CHECK(said(nvidia(2)) == 0);
}

TEST_CASE("too much memory is refused with the freest device") {
  Snapshot s = nvidia(2);
  use(s, 0, 70);
  use(s, 1, 10);
  Request request;
  request.memory_bytes = 75 * kGiB;
  const auto refused = place(request, s);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.rfind(
            "no device has 75.0 GiB free\n  the most free memory is on GPU 1: 70.0 GiB", 0) == 0);
  CHECK(refused.error().code == berth::ErrorCode::kRefused);
}

TEST_CASE("a request for more memory than an idle device has does not wait") {
  Snapshot s = nvidia(2);
  use(s, 0, 70);
  Request request;
  request.memory_bytes = 81 * kGiB;
  const auto refused = place(request, s);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message ==
        "no device has 81.0 GiB of memory\n  the largest is GPU 0 with 80.0 GiB");
  CHECK(refused.error().hint == "berth run --memory 80GiB …");
  CHECK(refused.error().code == berth::ErrorCode::kNoDevice);
}

TEST_CASE("an index is ambiguous only if the GPUs differ and CUDA may sort by speed") {
  const auto notes = [](Snapshot s, std::optional<std::string> order, const std::string& value) {
    Request request;
    request.inherited_cuda = value;
    request.inherited_cuda_order = std::move(order);
    return berth::policy::inherited_visibility(request, s).notes.size();
  };
  const Snapshot differing = machine({gpu(Vendor::kNvidia, "A", 8), gpu(Vendor::kNvidia, "B", 8)});
  CHECK(notes(differing, std::nullopt, "1") == 1);
  CHECK(notes(differing, "FASTEST_FIRST", "1") == 1);
  CHECK(notes(differing, "PCI_BUS_ID", "1") == 0);
  CHECK(notes(differing, std::nullopt, "GPU-aaaa0001") == 0);
  CHECK(notes(nvidia(2), std::nullopt, "1") == 0);
}

TEST_CASE("a failed driver is not treated as a machine without GPU") {
  Request request;
  request.gpus = 1;
  Snapshot s = bare();
  const auto absent = place(request, s);
  REQUIRE_FALSE(absent);
  CHECK(absent.error().message == "there is no GPU on this machine");
  s.driver.state = "error";
  s.driver.message = "the versions differ";
  const auto broken = place(request, s);
  REQUIRE_FALSE(broken);
  CHECK(broken.error().message == "no GPU of this machine can be used\n  the versions differ");
}
