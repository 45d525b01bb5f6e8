#include "serve/observer.hpp"

#include <algorithm>
#include <map>

#include "base/file.hpp"
#include "inventory/mig_driver.hpp"
#include "system/process_text.hpp"

namespace berth::serve {

std::vector<model::JobProcess> processes_of(const model::Snapshot& snapshot,
                                            const std::vector<JobRoot>& roots,
                                            const std::string& proc) {
  std::map<std::int64_t, model::JobId> known{{0, 0}, {1, 0}};
  for (const JobRoot& root : roots) known[root.pid] = root.job;
  const auto job_of = [&](std::int64_t pid) {
    std::vector<std::int64_t> way;
    constexpr std::size_t kDeepest = 1000;
    while (!known.contains(pid) && way.size() < kDeepest) {
      way.push_back(pid);
      const std::string text = slurp(proc + "/" + std::to_string(pid) + "/stat", 4096).value_or("");
      const auto stat = system::parse_stat(text);
      pid = stat ? stat->parent : 0;
    }
    const auto found = known.find(pid);
    const model::JobId job = found == known.end() ? 0 : found->second;
    for (const std::int64_t one : way) known[one] = job;
    return job;
  };
  std::vector<model::JobProcess> found;
  for (const model::DeviceProcess& process : snapshot.processes)
    if (process.pid)
      if (const model::JobId job = job_of(*process.pid); job != 0)
        found.push_back({*process.pid, job});
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return found;
}

Observer::Observer(inventory::Sources sources, bool mig, Done done)
    : sources_(std::move(sources)),
      mig_(mig),
      done_(std::move(done)),
      thread_([this] { work(); }) {}

Observer::~Observer() {
  {
    const std::lock_guard hold(mutex_);
    over_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Observer::ask(std::vector<JobRoot> roots) {
  {
    const std::lock_guard hold(mutex_);
    asked_ = true;
    roots_ = std::move(roots);
  }
  wake_.notify_one();
}

void Observer::work() {
  inventory::Options options;
  options.process_details = false;
  options.holders = false;
  options.opencl = inventory::OpenCl::kNever;
  std::unique_lock hold(mutex_);
  for (;;) {
    wake_.wait(hold, [this] { return asked_ || over_; });
    if (over_) return;
    asked_ = false;
    const std::vector<JobRoot> roots = std::move(roots_);
    hold.unlock();
    Look look;
    look.snapshot = inventory::observe(sources_, options);
    if (mig_) look.mig = inventory::read_mig_cards(sources_.nvml_library);
    look.processes = processes_of(look.snapshot, roots, sources_.roots.proc);
    done_(std::move(look));
    hold.lock();
  }
}

}  // namespace berth::serve
