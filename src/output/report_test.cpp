#include "output/report.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/json.hpp"
#include "model/tries.hpp"

using namespace berth;
using namespace berth::output;

namespace {

model::Report sample() {
  model::Report report;
  report.command = {"python", "train.py"};
  report.outcome = {model::OutcomeClass::kOk, 0, std::nullopt};
  report.wall = std::chrono::milliseconds(12'400);
  report.cpu = std::chrono::milliseconds(22'320);
  report.peak_rss_bytes = 611ULL << 20;
  report.threads = 2;
  report.looks = 100;
  report.how_often = "looked 100 times";
  report.gpu_use = model::GpuUse::kNotSeen;
  report.libraries = {"torch 1.13 (CPU build)", "numpy"};
  report.started_unix_milliseconds = 1'700'000'000'000;
  return report;
}

model::DeviceUse device() {
  model::DeviceUse use;
  use.device = 3;
  use.name = "NVIDIA H100";
  use.words = "GPU 3 (NVIDIA H100)";
  use.uuid = "GPU-1";
  use.memory_peak_bytes = 18ULL << 30;
  use.utilization_mean_percent = 41.0;
  use.utilization_peak_percent = 99.0;
  use.energy_millijoules = 6'840'000U;
  return use;
}

bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

Terminal plain() {
  Terminal terminal;
  terminal.width = 100;
  return terminal;
}

}  // namespace

TEST_CASE("threads, their libraries and the BLAS have one line") {
  model::Report report = sample();
  report.threading = {{"GNU OpenMP"}, {"OpenBLAS 0.3.21 (OpenMP)"}, 9, 17};
  CHECK(holds(report_text(report, plain()),
              "       at most 9 threads in a process; started by GNU OpenMP; BLAS: OpenBLAS 0.3.21 "
              "(OpenMP)\n"));
  const auto json = nlohmann::json::parse(report_json(report));
  CHECK(json["threading"]["most_threads"] == 9);
  CHECK(json["threading"]["most_threads_of_all_processes"] == 17);
  CHECK(json["threading"]["blas"][0] == "OpenBLAS 0.3.21 (OpenMP)");
  report.threading = {{}, {}, 9, 17};
  CHECK_FALSE(holds(report_text(report, plain()), "in a process"));
  CHECK(nlohmann::json::parse(report_json(sample()))["threading"]["most_threads"].is_null());
}

TEST_CASE("the cost is shown where prices are set, and says when it is not known") {
  model::Report report = sample();
  CHECK(nlohmann::json::parse(report_json(report))["cost"].is_null());
  report.prices = {2.5, 0.3, "EUR"};
  CHECK(holds(report_text(report, plain()), "cost  not known, because the energy is not known"));
  report.cost = 0.0125;
  CHECK(holds(report_text(report, plain()), "cost  0.0125 EUR\n"));
  const auto json = nlohmann::json::parse(report_json(report));
  CHECK(json["cost"]["amount"] == 0.0125);
  CHECK(json["cost"]["power_price"] == 0.3);
}

TEST_CASE("a job on the CPU of a machine without GPU is not blamed") {
  const std::string text = report_text(sample(), plain());
  CHECK(text ==
        "berth  done in 12.4 s   CPU, 2 threads   cores used 1.8   peak 611 MiB RSS\n"
        "       no GPU here; libraries: torch 1.13 (CPU build), numpy\n");
}

TEST_CASE("the report says why a broken driver left a job on the CPU") {
  model::Report report = sample();
  report.reasons = {"on the CPU: no GPU of this machine can be used", "the driver is not loaded"};
  const std::string text = report_text(report, plain());
  CHECK(holds(text, "no GPU that can be used here; libraries: torch"));
  CHECK(holds(text, "why   on the CPU: no GPU of this machine can be used\n"));
  CHECK(holds(text, "the driver is not loaded\n"));
}

TEST_CASE("a GPU that was used is told with its readings") {
  model::Report report = sample();
  report.devices = {device()};
  report.gpu_use = model::GpuUse::kSeen;
  report.gpus_here = true;
  const std::string text = report_text(report, plain());
  CHECK(holds(text, "GPU 3 (NVIDIA H100)   peak 18.0 GiB   mean 41 %, 1.9 Wh\n"));
  CHECK_FALSE(holds(text, "never"));
}

TEST_CASE("a GPU that was never used is said first, then what would use it, then how to leave it") {
  model::Report report = sample();
  report.devices = {device()};
  report.gpus_here = true;
  report.libraries = {"torch", "numpy"};
  report.suggestions = {"this PyTorch is a CPU build: install another"};
  const std::string text = report_text(report, plain());
  const auto never = text.find(
      "this program never used the GPU (looked 100 times; libraries: "
      "torch, numpy)");
  const auto tip = text.find("try   this PyTorch is a CPU build");
  const auto leave = text.find("or    berth run --cpu -- …");
  REQUIRE(never != std::string::npos);
  REQUIRE(tip != std::string::npos);
  REQUIRE(leave != std::string::npos);
  CHECK(never < tip);
  CHECK(tip < leave);
}

TEST_CASE("exit codes and signals are in the first line") {
  model::Report report = sample();
  report.outcome = {model::OutcomeClass::kFailed, 3, std::nullopt};
  CHECK(holds(report_text(report, plain()), "berth  exit code 3 after 12.4 s"));
  report.outcome = {model::OutcomeClass::kSignal, 137, 9};
  CHECK(holds(report_text(report, plain()), "berth  ended by SIGKILL after 12.4 s"));
}

TEST_CASE("variables that were set, unset and kept are listed on request") {
  model::Report report = sample();
  using Action = model::Setting::Action;
  report.settings = {{Action::kSet, "CUDA_VISIBLE_DEVICES", "3", "why"},
                     {Action::kUnset, "ROCR_VISIBLE_DEVICES", "", "why"},
                     {Action::kKeep, "OMP_NUM_THREADS", "7", "why"}};
  const std::string text = report_text(report, plain(), true);
  CHECK(holds(text, "set   CUDA_VISIBLE_DEVICES=3\n"));
  CHECK(holds(text, "unset ROCR_VISIBLE_DEVICES\n"));
  CHECK(holds(text, "kept  OMP_NUM_THREADS=7\n"));
  CHECK_FALSE(holds(report_text(report, plain()), "CUDA_VISIBLE_DEVICES=3"));
}

TEST_CASE("a device that does not fit beside the ending gets its own line") {
  Terminal terminal = plain();
  terminal.width = 50;
  const std::string text = report_text(sample(), terminal);
  CHECK(holds(text, "berth  done in 12.4 s\n       CPU, 2 threads   cores used 1.8   peak"));
}

TEST_CASE("no line is wider than the terminal") {
  model::Report report = sample();
  report.libraries.assign(30, "library");
  Terminal terminal = plain();
  terminal.width = 60;
  const std::string text = report_text(report, terminal);
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
    CHECK(display_width(text.substr(at, text.find('\n', at) - at)) <= 60);
}

TEST_CASE("the JSON holds every key, and null for what is not known") {
  model::Report report = sample();
  report.name = "";
  report.devices = {device(), {}};
  report.settings = {{model::Setting::Action::kSet, "A", "1", ""}};
  report.command.emplace_back("\xff\xfe");
  const auto json = nlohmann::json::parse(report_json(report));
  CHECK(json["schema"] == 1);
  CHECK(json["command"][1] == "train.py");
  CHECK(json["name"].is_null());
  CHECK(json["started_at"] == "2023-11-14T22:13:20.000Z");
  CHECK(json["outcome"]["class"] == "ok");
  CHECK(json["outcome"]["exit_code"] == 0);
  CHECK(json["outcome"]["signal"].is_null());
  CHECK(json["wall_seconds"] == 12.4);
  CHECK(json["cpu_seconds"] == 22.32);
  CHECK(json["cores_used"] == 1.8);
  CHECK(json["gpu_use"] == "not_seen");
  CHECK(json["devices"][0]["memory_peak_bytes"] == 18ULL << 30);
  CHECK(json["devices"][1]["memory_peak_bytes"].is_null());
  CHECK(json["devices"][0]["energy_millijoules"] == 6'840'000);
  CHECK(json["devices"][0]["absent"].empty());
  CHECK(json["devices"][1]["energy_millijoules"].is_null());
  CHECK(json["devices"][1]["absent"]["energy_millijoules"] == "not asked");
  CHECK(json["environment"]["set"]["A"] == "1");
  CHECK(report_json(report).find('\n') == report_json(report).size() - 1);
}

TEST_CASE("why a job ran on the CPU beside a GPU is told, unless that was requested") {
  model::Report report = sample();
  report.gpus_here = true;
  report.reasons = {"on the CPU: CUDA_VISIBLE_DEVICES=9 was already set", "and this"};
  CHECK(holds(report_text(report, plain()),
              "       why   on the CPU: CUDA_VISIBLE_DEVICES=9 was already set\n"
              "             and this\n"));
  CHECK(nlohmann::json::parse(report_json(report))["reasons"].size() == 2);
  report.on_cpu_by_request = true;
  CHECK_FALSE(holds(report_text(report, plain()), "why"));
}

TEST_CASE("energy stands alone where a device has no utilization") {
  model::Report report = sample();
  report.devices = {device()};
  report.devices[0].utilization_mean_percent = model::Absence::kNotSupported;
  report.gpu_use = model::GpuUse::kSeen;
  CHECK(holds(report_text(report, plain()), "peak 18.0 GiB   1.9 Wh\n"));
  report.devices[0].energy_millijoules = 1'260U;
  CHECK(holds(report_text(report, plain()), "peak 18.0 GiB   1.3 J\n"));
}

TEST_CASE("what a command left behind is named, with the way for it to stay, in one line each") {
  model::Report report = sample();
  report.left_behind = {{4121, "tmux new -s train"}, {4122, ""}};
  const std::string text = report_text(report, plain());
  CHECK(holds(
      text,
      "the command left 2 processes running, which were ended: tmux new -s train (pid 4121)"));
  CHECK(holds(text, "berth run --queue -- COMMAND"));
  CHECK(holds(report_json(report), "\"left_behind\":[{\"pid\":4121,\"command\":\"tmux new"));
  report.left_behind.clear();
  CHECK_FALSE(holds(report_text(report, plain()), "--queue"));
}

TEST_CASE("a job that was cancelled or over its limit is said to be that, not to be done") {
  model::Report report = sample();
  report.outcome = {model::OutcomeClass::kTimeLimit, 143, std::nullopt};
  CHECK(holds(report_text(report, plain()), "ended by its time limit after 12.4 s"));
  CHECK(holds(report_json(report), "\"class\":\"time limit\""));
  report.outcome = {model::OutcomeClass::kCancelled, 143, 15};
  CHECK(holds(report_text(report, plain()), "cancelled after 12.4 s"));
}

TEST_CASE("a job that was ended because it hung is said to have hung") {
  model::Report report = sample();
  report.outcome = {model::OutcomeClass::kSignal, 143, 15};
  auto tries = std::make_shared<model::Tries>();
  tries->has_ranks = true;
  model::Try& last = tries->all.emplace_back();
  last.kind = model::TryClass::kHang;
  last.evidence = "no progress for 12.0 s: Berth ended all ranks (--hang-action kill)";
  last.ranks.resize(3);
  for (int rank = 0; rank < 3; ++rank) {
    auto& one = last.ranks[static_cast<std::size_t>(rank)];
    one.rank = rank;
    one.signal = 15;
    one.part = rank == 1 ? model::RankPart::kFailedFirst : model::RankPart::kVictim;
  }
  last.hangs.emplace_back().odd_ranks = {1};
  report.tries = tries;
  const std::string text = report_text(report, plain());
  CHECK(holds(text, "hung, and was ended by Berth after 12.4 s"));
  CHECK(holds(text,
              "no progress for 12.0 s: Berth ended all ranks (--hang-action kill); rank 1 hung;"));
  CHECK(holds(text, "rank 1 hung; ranks 0,2\n       failed as a result"));
  CHECK_FALSE(holds(text, "failed first"));
  last.hangs.back().odd_ranks.clear();
  CHECK(holds(report_text(report, plain()), "ranks 0-2 hung"));
}

TEST_CASE("memory that grows is told with its rate, and JSON has the figures") {
  model::Report report = sample();
  CHECK_FALSE(holds(report_text(report, plain()), "grows"));
  report.memory_growth = {{std::nullopt, "", 12.0 * (1 << 20), 185},
                          {3, "GPU 3 (NVIDIA H100)", 2.0 * (1 << 20), 0}};
  const std::string text = report_text(report, plain());
  CHECK(holds(text, "host memory has grown by 12.0 MiB a minute since minute 3\n"));
  CHECK(
      holds(text, "memory on GPU 3 (NVIDIA H100) has grown by 2.00 MiB a minute since minute 0\n"));
  CHECK(holds(text, "try   store loss.item() instead of loss"));
  const auto json = nlohmann::json::parse(report_json(report));
  CHECK(json["memory_growth"][0]["device"].is_null());
  CHECK(json["memory_growth"][1]["bytes_per_minute"] == 2 << 20);
}

TEST_CASE("what limited a job is told with a change, in 25 lines at most") {
  model::Report report = sample();
  report.bottlenecks = {{"shared_cores", "other programs used them", "cores of its own"},
                        {"input", "it waited for 2 workers", "7 workers"},
                        {"waiting", "a third finding", "nothing"}};
  const std::string text = report_text(report, plain());
  CHECK(holds(text, "limit other programs used them\n       try   cores of its own\n"));
  CHECK(holds(text, "limit it waited for 2 workers\n       try   7 workers\n"));
  CHECK_FALSE(holds(text, "a third finding"));
  report.bottlenecks.clear();
  report.bottlenecks_unknown = "no bottleneck stood out";
  CHECK(holds(report_text(report, plain()), "limit not known: no bottleneck stood out\n"));
  report.outcome.exit_code = 3;
  CHECK_FALSE(holds(report_text(report, plain()), "limit"));
}

TEST_CASE("the longest report of a job that ended well has 25 lines at most") {
  model::Report report = sample();
  auto tries = std::make_shared<model::Tries>();
  tries->has_ranks = true;
  tries->world_size = 64;
  tries->all.resize(2);
  tries->all.back().ranks.resize(64);
  report.tries = tries;
  report.bottlenecks = {{"one", "first", "change"}, {"two", "second", "change"}};
  report.memory_growth = {{std::nullopt, "", 12.0 * (1 << 20), 185},
                          {3, "GPU 3", 2.0 * (1 << 20), 0}};
  report.notes = {"a note"};
  const std::string text = report_text(report, plain());
  CHECK(std::count(text.begin(), text.end(), '\n') <= 25);
}

TEST_CASE(
    "the stored report of a queued job has both languages, and a forged one prints no escapes") {
  const std::string stored = stored_report([] {
    model::Report report = sample();
    report.bottlenecks = {{"waiting", "it slept", "wake it"}};
    return report;
  });
  CHECK(sound_report(stored) == stored);
  const model::Outcome late{model::OutcomeClass::kTimeLimit, 143, std::nullopt};
  CHECK(holds(sound_report(stored, late), R"("outcome":{"class":"time limit")"));
  CHECK(holds(stored_report_text(stored), "limit it slept\n"));
  CHECK_FALSE(holds(stored_report_text(stored), "done in"));
  const std::string forged = stored_report_text(R"({"text":{"en":"a\u001b[31mb"}})");
  CHECK(forged.ends_with("[31mb\n"));
  CHECK(forged.find('\x1b') == std::string::npos);
  // Printing a document with so many levels would overflow the broker's stack.
  const std::string deep = R"({"report":{"a":)" + std::string(400'000, '[') +
                           std::string(400'000, ']') + R"(},"text":{"en":"x"}})";
  for (const std::string& one : std::vector<std::string>{"", "[", "[]", "null", R"({"report":3})",
                                                         R"({"text":{"en":1}})", deep}) {
    CHECK(sound_report(one).empty());
    CHECK(stored_report_text(one).empty());
  }
}
