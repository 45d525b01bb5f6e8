#include "job/isolation.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/language_for_tests.hpp"
#include "policy/machines_for_tests.hpp"
#include "system/temporary_tree.hpp"

namespace berth::job {
namespace {

using policy::machines::nvidia;

/// A machine with one GPU, and a job on it that may have 8 GiB.
struct Bench {
  model::Snapshot snapshot = nvidia(1);
  model::Request request;
  model::Placement placement;
  system::TemporaryTree mps;

  Bench() {
    snapshot.devices[0].uuid = "GPU-1";
    snapshot.driver.version = "615.30";
    request.memory_bytes = 8ULL << 30U;
    placement.devices = {0};
    placement.partitions = {""};
  }
  void start_mps(long pid) {
    mps.put("control", "");
    mps.put("nvidia-cuda-mps-control.pid", std::to_string(pid) + "\n");
  }
  [[nodiscard]] IsolatedJob job() const {
    return {request, placement, snapshot, false, "", "", mps.path};
  }
  [[nodiscard]] std::string chosen(Isolation wanted) const {
    const auto method = choose_method(wanted, job());
    return method ? std::string(word_of(*method)) : method.error().id;
  }
};

TEST_CASE("words of --isolation") {
  for (const char* word : {"auto", "driver", "mig", "mps", "guard", "none"})
    CHECK(word_of(isolation_of(word).value()) == word);
  CHECK(isolation_of("mpss").error().id == "E0106");
}

TEST_CASE("auto takes the strongest method that is there") {
  Bench bench;
  CHECK(bench.chosen(Isolation::kAuto) == "guard");
  bench.start_mps(::getpid());
  CHECK(bench.chosen(Isolation::kAuto) == "mps");
  bench.placement.partitions = {"MIG-1"};
  CHECK(bench.chosen(Isolation::kAuto) == "mig");
}

TEST_CASE("a method that was requested and is not there is refused") {
  Bench bench;
  const auto why = [&](Isolation wanted) {
    return choose_method(wanted, bench.job()).error().message;
  };
  CHECK(bench.chosen(Isolation::kMps) == "E1069");
  CHECK(bench.chosen(Isolation::kMig) == "E1068");
  CHECK(bench.chosen(Isolation::kDriver) == "E1067");
  CHECK(why(Isolation::kDriver).find("root must run the broker") != std::string::npos);
  bench.snapshot.driver.version = "580.95.05";
  CHECK(why(Isolation::kDriver).find("615") != std::string::npos);
  bench.request.memory_bytes.reset();
  CHECK(why(Isolation::kDriver).find("no memory was requested") != std::string::npos);
}

TEST_CASE("memory is spilled by the guard alone, on one GPU with page faults") {
  Bench bench;
  bench.start_mps(::getpid());
  bench.request.spills = true;
  bench.snapshot.devices[0].compute_capability = "8.9";
  CHECK(bench.chosen(Isolation::kAuto) == "guard");
  const auto why = [&](Isolation wanted, bool is_inner = false) {
    const auto can = check_spill(wanted, bench.job(), is_inner);
    if (can) return std::string();
    CHECK(can.error().id == "E1096");
    return can.error().message;
  };
  CHECK(why(Isolation::kAuto).empty());
  CHECK(why(Isolation::kMig).empty());
  CHECK(why(Isolation::kMps).find("--isolation mps") != std::string::npos);
  CHECK(why(Isolation::kNone).find("--isolation none") != std::string::npos);
  CHECK(why(Isolation::kAuto, true).find("surrounding job") != std::string::npos);
  bench.snapshot.devices[0].compute_capability = "5.2";
  CHECK(why(Isolation::kAuto).find("GPU 0 has 5.2") != std::string::npos);
  bench.snapshot.devices[0].compute_capability = "10.0";
  CHECK(why(Isolation::kAuto).empty());
  bench.snapshot.host.wsl = true;
  CHECK(why(Isolation::kAuto).find("WSL") != std::string::npos);
  bench.placement.devices = {0, 1};
  CHECK(why(Isolation::kAuto).find("one GPU") != std::string::npos);
  bench.placement.devices.clear();
  CHECK(why(Isolation::kAuto).empty());
  bench.placement.devices = {0, 1};
  bench.request.spills = false;
  CHECK(why(Isolation::kAuto).empty());
}

TEST_CASE("--isolation mig asks for a partition where there are some, unless a device is named") {
  model::Snapshot parted = nvidia(2);
  // the GPU has no partition yet, but the broker may create one
  parted.devices[1].mig_enabled = true;
  model::Request request;
  set_mig_only(request, Isolation::kAuto, parted);
  CHECK(!request.mig_only);
  set_mig_only(request, Isolation::kMig, nvidia(2));
  CHECK(!request.mig_only);
  set_mig_only(request, Isolation::kMig, parted);
  CHECK(request.mig_only == true);
  model::Request named;
  named.devices = {"0"};
  set_mig_only(named, Isolation::kMig, parted);
  CHECK(!named.mig_only);
}

TEST_CASE("a control daemon of MPS that was killed is not there") {
  Bench bench;
  bench.start_mps(0x3fffffff);
  CHECK(bench.chosen(Isolation::kMps) == "E1069");
}

TEST_CASE("MPS gets the memory by uuid, and the share only if no turns are requested") {
  Bench bench;
  bench.request.share_permille = 300;
  MpsLimits limits = mps_limits(bench.job(), true);
  CHECK(limits.memory == "GPU-1=8192M");
  CHECK(limits.threads == 30);
  bench.request.turns.cap_permille = 500;
  CHECK(mps_limits(bench.job(), true).threads == 50);
  CHECK(!mps_limits(bench.job(), false).threads);
  bench.request.turns.latency = true;
  CHECK(!mps_limits(bench.job(), true).threads);
}

}  // namespace
}  // namespace berth::job
