#include "inventory/local_processes.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace berth::inventory {

namespace {

using model::DeviceProcess;

class Filler {
 public:
  Filler(const Roots& roots, const system::PidTranslator& translator, system::Depth depth)
      : reader_(roots), translator_(translator), depth_(depth) {}

  void fill(DeviceProcess& row) {
    const bool host = translator_.view() == system::PidView::kHost;
    if (!row.host_pid && row.pid) {
      // This pid was found in /proc. If /proc belongs to the host, this is the host's pid, and the
      // pid in this namespace may differ.
      if (translator_.view() == system::PidView::kForeign) {
        reader_.fill(row, *row.pid, depth_);
        return;
      }
      row.host_pid = row.pid;
    }
    if (!row.host_pid) return;
    // On the host, both pids are equal, so no search is needed.
    if (host && reader_.fill(row, *row.host_pid, depth_)) {
      row.pid = row.host_pid;
      return;
    }
    const system::LocalPid local = translator_.find(*row.host_pid);
    row.pid = local.pid;
    if (local.folder) reader_.fill(row, *local.folder, depth_);
  }

 private:
  system::ProcessReader reader_;
  const system::PidTranslator& translator_;
  system::Depth depth_;
};

}  // namespace

void copy_local_half(const DeviceProcess& from, DeviceProcess& to) {
  to.pid = from.pid;
  to.host_pid = from.host_pid;
  to.uid = from.uid;
  to.user = from.user;
  to.state = from.state;
  to.start_ticks = from.start_ticks;
  to.cpu_percent = from.cpu_percent;
  to.rss_bytes = from.rss_bytes;
  to.age_seconds = from.age_seconds;
  to.command = from.command;
  to.container = from.container;
  to.unit = from.unit;
  to.pod = from.pod;
}

void fill_local(std::vector<DeviceProcess>& processes, const Roots& roots,
                const system::PidTranslator& translator, system::Depth depth) {
  // Groups the rows by process, so that each process is read once.
  std::vector<DeviceProcess*> rows(processes.size());
  std::transform(processes.begin(), processes.end(), rows.begin(), [](auto& row) { return &row; });
  const auto identity = [](const DeviceProcess* row) {
    return std::tuple(row->host_pid, row->pid);
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const DeviceProcess* a, const DeviceProcess* b) {
    return identity(a) < identity(b);
  });
  Filler filler(roots, translator, depth);
  const DeviceProcess* last = nullptr;
  decltype(identity(rows[0])) last_identity;
  for (DeviceProcess* row : rows) {
    const auto own = identity(row);
    if (last != nullptr && own == last_identity) {
      copy_local_half(*last, *row);
      continue;
    }
    filler.fill(*row);
    last = row;
    last_identity = own;
  }
}

}  // namespace berth::inventory
