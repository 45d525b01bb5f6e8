#include "run/bottleneck.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace berth;
using namespace berth::run;

namespace {

/// A minute on eight cores. The main thread ran for the part `runs` of that time.
Evidence minute(double runs, double runnable) {
  Evidence evidence;
  evidence.wall_seconds = 60;
  evidence.cpu_seconds = runnable * 60;
  evidence.cores = 8;
  evidence.main.seconds = 60;
  evidence.main.runs = runs * 60;
  evidence.runnable = runnable;
  evidence.disk_bytes = 0;
  return evidence;
}

Evidence on_device(double runs, double busy) {
  Evidence evidence = minute(runs, runs);
  DeviceEvidence device;
  device.words = "GPU 0";
  device.busy = busy;
  evidence.devices = {device};
  return evidence;
}

std::string first_kind(const Evidence& evidence) {
  const Bottlenecks all = find_bottlenecks(evidence);
  if (all.found.empty()) return "";
  CHECK_FALSE(all.found.front().sentence.empty());
  CHECK_FALSE(all.found.front().change.empty());
  return all.found.front().kind;
}

bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a loop in one thread, all cores, more threads than cores, and sleep are told apart") {
  CHECK(first_kind(minute(0.98, 1.0)) == "one_thread");
  CHECK(first_kind(minute(0.98, 7.6)) == "cores");
  CHECK(first_kind(minute(0.98, 31)) == "too_many_threads");
  CHECK(first_kind(minute(0.02, 0.02)) == "waiting");
  CHECK(first_kind(minute(0.5, 2)).empty());
  CHECK(find_bottlenecks(minute(0.5, 2)).unknown == "no bottleneck stood out");
}

TEST_CASE("the reference BLAS is named where the CPU limits the job") {
  Evidence evidence = minute(0.98, 1.0);
  CHECK_FALSE(holds(find_bottlenecks(evidence).found.front().change, "BLAS"));
  evidence.has_reference_blas = true;
  CHECK(holds(find_bottlenecks(evidence).found.front().change, "libopenblas0"));
  evidence = minute(0.98, 7.6);
  evidence.has_reference_blas = true;
  CHECK(holds(find_bottlenecks(evidence).found.front().change, "libopenblas0"));
}

TEST_CASE("one core that is busy is all cores, where the job may use one") {
  Evidence evidence = minute(0.98, 1.0);
  evidence.cores = 1;
  CHECK(first_kind(evidence) == "cores");
}

TEST_CASE("cores that other programs use are named") {
  Evidence evidence = minute(0.98, 7.6);
  evidence.cpu_seconds = 60 * 3.0;
  CHECK(first_kind(evidence) == "shared_cores");
  // the report does not also ask for more cores
  CHECK(find_bottlenecks(evidence).found.size() == 1);
}

TEST_CASE("a quota that stops the job is named, and not other programs") {
  Evidence evidence = minute(0.98, 7.6);
  evidence.cpu_seconds = 60 * 3.0;
  evidence.quota_part = 0.6;
  CHECK(first_kind(evidence) == "cpu_quota");
  CHECK(find_bottlenecks(evidence).found.size() == 2);
}

TEST_CASE("an input pipeline proposes as many workers as would keep the main process busy") {
  Evidence evidence = minute(0.4, 2.4);
  evidence.main.waits_for_workers = 36;
  evidence.main.workers = 2 * 60;
  evidence.main.busy_workers = 2 * 36;
  REQUIRE(first_kind(evidence) == "input");
  CHECK(holds(find_bottlenecks(evidence).found.front().sentence, "60 % of the time for 2 worker"));
  CHECK(holds(find_bottlenecks(evidence).found.front().change, "num_workers=5"));
  SUBCASE("but not more than cores") {
    evidence.cores = 4;
    CHECK(holds(find_bottlenecks(evidence).found.front().change, "num_workers=4"));
  }
  SUBCASE("and less work for each item, if there are no more cores") {
    evidence.cores = 2;
    CHECK_FALSE(holds(find_bottlenecks(evidence).found.front().change, "num_workers"));
  }
  SUBCASE("workers that mostly wait themselves are not multiplied") {
    evidence.main.workers = 8 * 60;
    CHECK(holds(find_bottlenecks(evidence).found.front().change, "only 2.0 of 8"));
  }
}

TEST_CASE("a main process that sleeps while its children compute is not said to wait") {
  Evidence evidence = minute(0.02, 0.6);
  evidence.cpu_seconds = 0.6 * 60;
  CHECK(find_bottlenecks(evidence).found.empty());
}

TEST_CASE("a disk is named only if bytes went to it") {
  Evidence evidence = minute(0.1, 0.1);
  evidence.main.on_disk = 50;
  CHECK(first_kind(evidence) == "waiting");
  CHECK(holds(find_bottlenecks(evidence).unknown, "not for a disk"));
  evidence.disk_bytes = 5e9;
  CHECK(first_kind(evidence) == "disk");
}

TEST_CASE("a rank for which most others wait is named") {
  Evidence evidence = minute(0.4, 1.6);
  evidence.mains = 4;
  evidence.ranks = {{0, 0.2}, {1, 0.2}, {2, 0.97}, {3, 0.25}};
  REQUIRE(first_kind(evidence) == "other_ranks");
  CHECK(holds(find_bottlenecks(evidence).found.front().sentence, "rank 2 ran 97 %"));
  evidence.ranks = {{0, 0.9}, {1, 0.95}, {2, 0.97}, {3, 0.3}};
  CHECK(first_kind(evidence) != "other_ranks");
}

TEST_CASE("a busy device is bound by computing, memory, heat, power or its share") {
  Evidence evidence = on_device(0.9, 0.95);
  DeviceEvidence& device = evidence.devices.front();
  CHECK(first_kind(evidence) == "device");
  CHECK(holds(find_bottlenecks(evidence).unknown, "computing or memory"));
  device.strain.memory_busy = 0.3;
  CHECK(first_kind(evidence) == "device_compute");
  device.strain.memory_busy = 0.8;
  CHECK(first_kind(evidence) == "device_memory");
  device.strain.slowed_by_power = 0.9;
  CHECK(first_kind(evidence) == "throttled");
  CHECK(holds(find_bottlenecks(evidence).found.front().sentence, "power limit"));
  device.strain.slowed_by_heat = 0.95;
  CHECK(holds(find_bottlenecks(evidence).found.front().sentence, "heat"));
  device.strain = {};
  device.share_permille = 300;
  device.own_seconds = 17.9;
  device.waited_seconds = 30;
  CHECK(first_kind(evidence) == "share");
  CHECK(holds(find_bottlenecks(evidence).found.front().sentence,
              "waited 50 % of the time for other jobs"));
}

TEST_CASE("the share of a job that was alone on its device limited nothing") {
  Evidence evidence = on_device(0.9, 0.95);
  DeviceEvidence& device = evidence.devices.front();
  device.share_permille = 300;
  device.own_seconds = 52;
  device.waited_seconds = 0;
  CHECK(first_kind(evidence) == "device");
}

TEST_CASE("the advice to look at the stacks says what the job needs for it") {
  Evidence evidence = minute(0.01, 0.01);
  REQUIRE(first_kind(evidence) == "waiting");
  CHECK(find_bottlenecks(evidence).found.front().change ==
        "if the job is started with berth run --retries 1, berth stacks JOB shows its current line "
        "of Python");
  evidence.registers_stacks = true;
  evidence.has_number = false;
  CHECK(find_bottlenecks(evidence).found.front().change ==
        "berth stacks PID shows the current line of code while the program runs");
}

TEST_CASE("a device that waits is told why") {
  Evidence evidence = on_device(0.95, 0.2);
  DeviceEvidence& device = evidence.devices.front();
  CHECK(first_kind(evidence) == "host_code");
  CHECK(holds(find_bottlenecks(evidence).unknown, "--memory"));
  SUBCASE("short kernels") {
    device.launches = 60 * 20'000;
    device.copies = 10;
    REQUIRE(first_kind(evidence) == "launches");
    CHECK(holds(find_bottlenecks(evidence).found.front().sentence,
                "20000 kernels a second of 10 µs"));
  }
  SUBCASE("few kernels") {
    device.launches = 60 * 100;
    device.copies = 10;
    CHECK(first_kind(evidence) == "host_code");
  }
  SUBCASE("many copies") {
    device.launches = 60 * 100;
    device.copies = 60 * 9000;
    CHECK(first_kind(evidence) == "transfers");
  }
  SUBCASE("a full bus") {
    device.strain.link_used = 0.7;
    CHECK(first_kind(evidence) == "transfers");
  }
  SUBCASE("workers") {
    evidence.main.runs = 6;
    evidence.main.waits_for_workers = 50;
    evidence.main.workers = 60;
    evidence.main.busy_workers = 50;
    CHECK(first_kind(evidence) == "input");
  }
  SUBCASE("nothing runs at all") {
    evidence.main.runs = 3;
    evidence.cpu_seconds = 3;
    evidence.runnable = 0.05;
    CHECK(first_kind(evidence) == "waiting");
  }
  SUBCASE("it was never used") {
    evidence.device_unused = true;
    CHECK(first_kind(evidence) == "device_unused");
    CHECK(find_bottlenecks(evidence).found.back().kind == "one_thread");
  }
}

TEST_CASE("without evidence nothing is named") {
  Evidence evidence = on_device(0.95, 0.2);
  evidence.devices.front().busy.reset();
  CHECK(first_kind(evidence).empty());
  CHECK(find_bottlenecks(evidence).unknown == "it is not known how busy GPU 0 was");
  evidence = minute(0.98, 1);
  evidence.wall_seconds = 1.9;
  CHECK(find_bottlenecks(evidence).unknown == "the job ran for less than 2 s");
  evidence = minute(0.98, 1);
  evidence.main = {};
  CHECK(find_bottlenecks(evidence).unknown == "the processes of the job were not sampled in time");
}

TEST_CASE("two devices with the same trouble give one finding") {
  Evidence evidence = on_device(0.95, 0.2);
  evidence.devices.push_back(evidence.devices.front());
  CHECK(find_bottlenecks(evidence).found.size() == 1);
}
