#include "run/activity.hpp"

#include <algorithm>

#include "run/signal_probe.hpp"

namespace berth::run {
namespace {

using std::chrono::milliseconds;

/// A process with more CPU time than this is not a mere launcher. `sh -c` or `uv run` uses less,
/// and a Python program with a model uses more.
constexpr milliseconds kMostOfLauncher{500};

using Children = std::multimap<pid_t, const SeenProcess*>;

bool runs(const SeenProcess& one) {
  return one.state == 'R';
}
bool works(const SeenProcess& one) {
  return runs(one) || one.state == 'D';
}

/// The process that does the work. If `one` is a launcher that only waits for its child, this is
/// the child.
const SeenProcess* below_launchers(const SeenProcess* one, const Children& children) {
  for (int depth = 0; depth < 16; ++depth) {
    if (children.count(one->pid) != 1 || runs(*one) || one->cpu > kMostOfLauncher) return one;
    const SeenProcess* child = children.find(one->pid)->second;
    // a child with the same name is a worker that the process forked
    if (child->name == one->name) return one;
    one = child;
  }
  return one;
}

std::vector<const SeenProcess*> workers_of(pid_t pid, const Children& children) {
  std::vector<const SeenProcess*> found;
  std::vector<pid_t> open{pid};
  while (!open.empty() && found.size() < children.size()) {
    const auto [first, last] = children.equal_range(open.back());
    open.pop_back();
    for (auto at = first; at != last; ++at) {
      found.push_back(at->second);
      open.push_back(at->second->pid);
    }
  }
  return found;
}

void observe(const SeenProcess& main, const Children& children, double seconds,
             MainActivity& activity) {
  activity.seconds += seconds;
  if (runs(main)) activity.runs += seconds;
  const auto workers = workers_of(main.pid, children);
  const auto busy = static_cast<double>(std::count_if(
      workers.begin(), workers.end(), [](const SeenProcess* one) { return works(*one); }));
  activity.workers += seconds * static_cast<double>(workers.size());
  if (runs(main)) return;
  if (main.state == 'D' && busy == 0) activity.on_disk += seconds;
  if (busy == 0) return;
  activity.waits_for_workers += seconds;
  activity.busy_workers += seconds * busy;
}

}  // namespace

void MainActivity::operator+=(const MainActivity& other) {
  seconds += other.seconds;
  runs += other.runs;
  on_disk += other.on_disk;
  waits_for_workers += other.waits_for_workers;
  workers += other.workers;
  busy_workers += other.busy_workers;
}

void Activity::add(const std::vector<SeenProcess>& processes, Clock::time_point now) {
  const double passed = std::chrono::duration<double>(now - last_).count();
  last_ = now;
  Children children;
  for (const SeenProcess& one : processes)
    if (one.state != 'Z') children.emplace(one.parent, &one);
  const auto first = children.find(root_);
  if (first == children.end()) return;
  std::vector<const SeenProcess*> mains{first->second};
  if (supervised_) {
    const SeenProcess& supervisor = *first->second;
    mains.clear();
    // The supervisor's other children are helpers of Berth: its signal probe, and short-lived forks
    // that have the supervisor's name.
    const auto [begin, end] = children.equal_range(supervisor.pid);
    for (auto at = begin; at != end; ++at)
      if (at->second->name != supervisor.name && at->second->name != kSignalProbeName)
        mains.push_back(at->second);
  }
  for (const SeenProcess* one : mains)
    observe(*below_launchers(one, children), children, passed, mains_[one->pid]);
}

MainActivity Activity::all() const {
  MainActivity sum;
  for (const auto& [pid, one] : mains_) sum += one;
  return sum;
}

}  // namespace berth::run
