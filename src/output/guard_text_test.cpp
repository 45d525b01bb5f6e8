#include "output/guard_text.hpp"

#include <doctest/doctest.h>

using berth::model::Guarded;
using berth::model::GuardedDevice;
using berth::model::Report;
using berth::output::guard_sentence;

namespace {

Report report_with(std::uint32_t programs) {
  Report report;
  report.guarded.emplace();
  report.guarded->set_up = true;
  report.guarded->programs = programs;
  GuardedDevice device;
  device.memory_limit_bytes = std::uint64_t{8} << 30U;
  device.share_permille = 300;
  device.memory_peak_bytes = std::uint64_t{6} << 30U;
  report.guarded->devices.push_back(device);
  return report;
}

}  // namespace

TEST_CASE("one sentence says what was enforced, and how near the job came to it") {
  Report report = report_with(1);
  CHECK(guard_sentence(report) ==
        "limited by the guard: 8.00 GiB, 30 % of the time when other jobs use the device; peak "
        "6.00 GiB");
  report.guarded->devices[0].turns.cap_permille = 500;
  report.guarded->devices[0].turns.latency = true;
  report.guarded->devices[0].turns.slice_milliseconds = 100;
  CHECK(guard_sentence(report).find("the device, at most 50 % of the time, priority over other "
                                    "jobs, turns of 100 ms; peak") != std::string::npos);
  report.guarded->devices[0].refusals = 1;
  report.guarded->not_counted = "what nobody saw";
  CHECK(guard_sentence(report).find("; 1 request refused; not counted: what nobody saw") !=
        std::string::npos);
}

TEST_CASE("a peak above the limit is said to be from the time before the limit was lowered") {
  Report report = report_with(1);
  report.guarded->devices[0].memory_limit_bytes = std::uint64_t{512} << 20U;
  report.guarded->devices[0].share_permille.reset();
  CHECK(guard_sentence(report) ==
        "limited by the guard: 512 MiB; peak 6.00 GiB, before the limit was lowered");
}

TEST_CASE("the sentence says how much was spilled, also if it was nothing, and only with --spill") {
  Report report = report_with(1);
  CHECK(guard_sentence(report).find("spilled") == std::string::npos);
  report.guarded->devices[0].spilled_peak_bytes = 0;
  CHECK(guard_sentence(report).find("; peak 6.00 GiB; spilled at most 0 B") != std::string::npos);
  report.guarded->devices[0].spilled_peak_bytes = std::uint64_t{3} << 30U;
  CHECK(guard_sentence(report).ends_with("; spilled at most 3.00 GiB"));
  report.guarded->devices[0].prefetches = 2;
  report.guarded->devices[0].prefetched_bytes = std::uint64_t{6} << 30U;
  CHECK(guard_sentence(report).ends_with("; 6.00 GiB moved to the device by 2 prefetches"));
}

TEST_CASE("limits that were not enforced are not reported as enforced") {
  CHECK(guard_sentence(Report{}).empty());
  Report report = report_with(0);
  CHECK(guard_sentence(report).find("no program used CUDA") != std::string::npos);
  report.gpu_use = berth::model::GpuUse::kSeen;
  CHECK(guard_sentence(report).starts_with("limits not enforced: "));
  report = report_with(1);
  report.guarded->not_enforced = "there is no folder";
  CHECK(guard_sentence(report) == "limits not enforced: there is no folder");
}
