// Writes a made-up past into a history file as the daemon would, one frame a second, and prints
// what it costs: bytes for a GPU's day, CPU time, and the time to read a day of all devices. The
// GPUs have jobs of one to three hours, with noise in every reading, and pauses. Also gives the
// page's test a day to draw. usage: bench_history FILE SECONDS UUID...     (the last second is now)
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "watch/history.hpp"

namespace {

using namespace berth;

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

double uniform(std::mt19937& random, double least, double most) {
  return least + (most - least) * static_cast<double>(random() % 10'000) / 10'000;
}

class Gpu {
 public:
  Gpu(const std::string& uuid, int index) : random_(static_cast<unsigned>(index) + 1) {
    device.uuid = uuid;
    device.index = index;
    device.name = "NVIDIA H100 80GB HBM3";
    device.health = model::Health::kOk;
  }
  void step() {
    if (left_-- <= 0) begin_phase();
    const bool saves = works_ && left_ % 900 < 20;  // a checkpoint: the GPU waits for the disk
    const double use = !works_ ? 0
                       : saves ? uniform(random_, 0, 9)
                               : std::min(100.0, level_ + uniform(random_, -9, 9));
    heat_ += (30 + use * 0.4 - heat_) / 90;
    auto& readings = device.readings;
    readings.utilization_percent = std::floor(use);
    readings.memory_utilization_percent = std::floor(use * 0.6);
    readings.memory_total_bytes = std::uint64_t{80} << 30U;
    readings.memory_used_bytes = (works_ ? memory_mib_ + random_() % 48 : std::uint64_t{4}) << 20U;
    readings.temperature_celsius = std::floor(heat_);
    readings.power_milliwatts =
        static_cast<std::uint64_t>(70'000 + use * 5'600 + uniform(random_, 0, 9'000));
    readings.clock_sm_mhz =
        static_cast<std::uint32_t>(works_ ? 1'740 + 15 * (random_() % 12) : 345);
  }

  model::Device device;

 private:
  void begin_phase() {
    works_ = random_() % 5 != 0;
    left_ = works_ ? 3'600 + static_cast<int>(random_() % 7'200)
                   : 600 + static_cast<int>(random_() % 3'000);
    level_ = uniform(random_, 55, 97);
    memory_mib_ = 8'000 + random_() % 68'000;
  }

  std::mt19937 random_;
  bool works_ = false;
  int left_ = 0;
  double level_ = 0, heat_ = 30;
  std::uint64_t memory_mib_ = 0;
};

}  // namespace

int main(int count, char** words) {
  if (count < 4) return std::fprintf(stderr, "usage: bench_history FILE SECONDS UUID...\n"), 2;
  const std::string file = words[1];
  const std::int64_t seconds = std::atoll(words[2]), now = std::time(nullptr);
  std::vector<Gpu> gpus;
  for (int i = 3; i < count; ++i) gpus.emplace_back(words[i], i - 3);
  auto history = watch::History::open(file);
  if (!history) return std::fprintf(stderr, "error: %s\n", history.error().message.c_str()), 1;
  const double before = cpu_seconds();
  watch::Frame frame;
  for (std::int64_t second = 0; second < seconds; ++second) {
    frame.number = static_cast<std::uint64_t>(second) + 1;
    frame.seconds = static_cast<double>(second);
    frame.snapshot.unix_milliseconds = (now - seconds + second) * 1000;
    frame.snapshot.devices.clear();
    for (Gpu& gpu : gpus) {
      gpu.step();
      frame.snapshot.devices.push_back(gpu.device);
    }
    history->add(frame);
  }
  history->flush();
  const double spent = cpu_seconds() - before;
  { const auto closed = std::move(*history); }  // writes the log into the file
  const auto bytes = static_cast<double>(std::filesystem::file_size(file));
  const auto begun = std::chrono::steady_clock::now();
  const auto reader = watch::HistoryReader::open(file);
  std::size_t moments = 0;
  if (reader)
    for (const watch::DeviceHistory& one : reader->devices({now - watch::kDay, now + 1, 60, {}}))
      moments += one.moments.size();
  const std::chrono::duration<double, std::milli> read = std::chrono::steady_clock::now() - begun;
  const double days = static_cast<double>(seconds) * static_cast<double>(gpus.size()) / watch::kDay;
  std::printf(
      "%.2f MB for a GPU's day, %.3f %% of a core for each GPU, %zu minutes read in %.0f ms\n",
      bytes / days / 1e6,
      spent / static_cast<double>(seconds) / static_cast<double>(gpus.size()) * 100, moments,
      read.count());
  return moments == 0;
}
