#include "serve/idle_bench.hpp"

#include <algorithm>

#include "base/file.hpp"
#include "base/text.hpp"
#include "bench/results.hpp"
#include "model/busy.hpp"
#include "model/device_use.hpp"
#include "policy/candidates.hpp"

namespace berth::serve {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::size_t kMostResults = 16 << 20, kMostOutput = 64 << 10;
constexpr seconds kBetweenLooks(30);
constexpr seconds kBetweenChecks(2);  // how often to check whether a measurement has ended
/// No measurement starts for this long after a job, and after a measurement that gave way.
constexpr minutes kQuiet(1);
constexpr minutes kLongest(15);

bench::EarlierResults results_in(const std::string& file) {
  const auto document = slurp(file, kMostResults);
  if (!document) return {};
  auto results = bench::parse_results(*document, file);
  return results ? *std::move(results) : bench::EarlierResults{};
}

}  // namespace

std::vector<const model::Device*> idle_devices(const model::Snapshot& snapshot,
                                               const std::set<std::string>& leased) {
  std::vector<const model::Device*> idle;
  for (const model::Device& device : snapshot.devices) {
    if (!model::is_gpu(device) || model::users_unknown(device)) continue;
    const bool has_job = leased.contains(policy::unit_id(device, nullptr)) ||
                         std::any_of(device.partitions.begin(), device.partitions.end(),
                                     [&](const model::Partition& one) {
                                       return leased.contains(policy::unit_id(device, &one));
                                     });
    const bool is_used =
        model::has_unseen_users(device, snapshot) ||
        std::any_of(snapshot.processes.begin(), snapshot.processes.end(),
                    [&](const model::DeviceProcess& one) {
                      return one.device == device.index && model::makes_busy(one, device);
                    });
    if (!has_job && !is_used) idle.push_back(&device);
  }
  return idle;
}

IdleBench::IdleBench(std::chrono::milliseconds every, std::string state_folder, Note note, Run run)
    : every_(every),
      state_folder_(std::move(state_folder)),
      note_(std::move(note)),
      run_(std::move(run)) {}

IdleBench::~IdleBench() {
  give_way({});
}

bool IdleBench::is_due(const std::string& device, Instant now,
                       std::int64_t unix_milliseconds) const {
  if (const auto tried = tried_.find(device); tried != tried_.end() && now < tried->second + every_)
    return false;
  for (const auto& [key, one] : results_in(bench::kept_file(state_folder_)))
    if (key.starts_with(device + "\n") && one.unix_milliseconds <= unix_milliseconds &&
        one.unix_milliseconds + every_.count() > unix_milliseconds)
      return false;
  return true;
}

void IdleBench::see(const model::Snapshot& snapshot, const std::set<std::string>& leased,
                    bool is_waited, Instant now, std::int64_t unix_milliseconds) {
  if (every_.count() == 0) return;
  if (!device_.empty() && is_over_) finish(now);
  if (is_waited) {
    give_way(now);
    look_at_ = now + kQuiet;
    return;
  }
  if (!wants_look(now)) return;
  look_at_ = now + (device_.empty() ? kBetweenLooks : kBetweenChecks);
  if (!device_.empty()) return;
  for (const model::Device* device : idle_devices(snapshot, leased))
    if (is_due(bench::device_key(*device), now, unix_milliseconds)) return begin(*device, now);
}

void IdleBench::begin(const model::Device& device, Instant now) {
  device_ = bench::device_key(device);
  name_ = device.name;
  look_at_ = now + kBetweenChecks;
  is_stopped_ = is_over_ = false;
  system::ChildRun run{.program = "/proc/self/exe",
                       .words = {"berth", "bench", "--keep", "--seconds", "1", "--device",
                                 device.uuid.empty() ? std::to_string(device.index) : device.uuid},
                       .longest = kLongest,
                       .most_bytes = kMostOutput,
                       .variables = {"BERTH_STATE_DIR=" + state_folder_}};
  thread_ = std::thread([this, run = std::move(run)] {
    result_ = run_(run, is_stopped_);
    is_over_ = true;
  });
}

void IdleBench::finish(Instant now) {
  thread_.join();
  const std::string device = std::exchange(device_, "");
  tried_[device] = now;
  const auto latest = results_in(bench::kept_file(state_folder_));
  const auto baseline = results_in(bench::kept_baseline_file(state_folder_));
  const bench::Speed speed = bench::speed_of(device, latest, baseline);
  if (!note_) return;
  for (const std::string& sentence : speed.slower)
    note_(text("{0}: {1}", printable(name_), sentence));
}

bool IdleBench::give_way(Instant now) {
  if (!thread_.joinable()) return false;
  look_at_ = now + kQuiet;
  is_stopped_ = true;
  thread_.join();
  device_.clear();
  return true;
}

}  // namespace berth::serve
