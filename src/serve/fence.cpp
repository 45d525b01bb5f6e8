#include "serve/fence.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/text.hpp"
#include "policy/access.hpp"
#include "serve/watches.hpp"
#include "system/gpu_nodes.hpp"

namespace berth::serve {
namespace {

using model::JobId;
using system::ControlGroup;
using system::DeviceFilter;

constexpr const char* kFilterName = "berth_job";
constexpr std::string_view kJob = "job-";
// The broker's own group, beside the groups of the jobs. The broker enters it if it was started in
// user.slice.
constexpr const char* kOwn = "/broker";

Error unsupported(const std::string& why) {
  return {ErrorCode::kUnsupported, "E0940", why, ""};
}

bool is_in_user_slice(const std::string& folder) {
  return folder.find("/user.slice") != std::string::npos;
}

/// Returns the job groups in a folder.
std::vector<std::string> job_groups(const ControlGroup& base) {
  std::vector<std::string> names = list_folder(base.folder());
  std::erase_if(names, [](const std::string& name) { return !name.starts_with(kJob); });
  return names;
}

bool has_jobs(const ControlGroup& base) {
  const auto names = job_groups(base);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return !ControlGroup(base.folder() + "/" + name).is_empty();
  });
}

/// What an earlier broker of this state folder recorded: the folder of its groups ("": none) and
/// the mark on it.
struct Earlier {
  std::string place, mark;
};

Earlier earlier_place(const std::string& note, const system::CgroupMount& mount) {
  const std::string bytes = slurp(note, 8192).value_or("");
  const auto lines = split(bytes, '\n');
  Earlier found{std::string(lines[0]), lines.size() > 1 ? std::string(lines[1]) : ""};
  const bool is_sound = found.place.starts_with(mount.point + "/") &&
                        found.place.find("..") == std::string::npos &&
                        !is_in_user_slice(found.place);
  if (!is_sound) found.place.clear();
  return found;
}

constexpr const char* kMark = "trusted.berth";

std::string new_mark() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) return "";
  return fmt::format("{:016x}", number);
}

/// Another broker may have used the folder since then and left jobs in it. Then the mark differs. A
/// folder without a mark (older broker, or no kernel support) counts as ours.
bool is_still_ours(const std::string& place, const std::string& mark) {
  std::array<char, 64> bytes{};
  const ssize_t n = ::getxattr(place.c_str(), kMark, bytes.data(), bytes.size());
  return n <= 0 || std::string_view(bytes.data(), static_cast<std::size_t>(n)) == mark;
}

/// Whether the folder is still the one that `open` refers to. An exiting broker removes its folder,
/// and the next broker creates a new folder with the same name.
bool is_that(const std::string& folder, const Descriptor& open) {
  struct stat named = {}, held = {};
  return ::stat(folder.c_str(), &named) == 0 && ::fstat(open.get(), &held) == 0 &&
         named.st_ino == held.st_ino && named.st_dev == held.st_dev;
}

struct Place {
  std::string folder;
  Descriptor lock;
};

/// Returns the first folder that no other broker uses, and that contains no jobs of another broker.
/// A broker with another state folder (for example, in another mount namespace) sees the same
/// groups, and we must not end its jobs.
Result<Place> take_place(const std::vector<std::string>& places, const Earlier& earlier) {
  for (const std::string& place : places) {
    const ControlGroup base(place);
    if (auto made = base.make(); !made) return std::move(made).error();
    Descriptor lock(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 || !is_that(place, lock)) continue;
    const bool is_ours = place == earlier.place && is_still_ours(place, earlier.mark);
    if (is_ours || !has_jobs(base)) return Place{place, std::move(lock)};
  }
  return unsupported(
      text("other brokers have jobs in the control group {}", printable(places.back())));
}

Status write_note(const std::string& note, const std::string& lines) {
  const Descriptor file(::open(note.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file && ::write(file.get(), lines.data(), lines.size()) == static_cast<ssize_t>(lines.size()))
    return Done{};
  return unsupported(text("{} cannot be written: {}", printable(note), error_words(errno)));
}

/// Tries to create a group like that of a job, with a process and a filter.
Status try_out(const ControlGroup& base) {
  const ControlGroup probe(base.folder() + "/probe");
  if (auto made = probe.make(); !made) return made;
  const auto filter = DeviceFilter::load({{false, 195}}, {}, kFilterName);
  if (!filter) return filter.error();
  const auto held = filter->hold(probe.folder());
  static_cast<void>(probe.remove());
  if (!held) return held.error();
  return Done{};
}

/// Whether all four user ids of the process belong to this user. If so, the process has the rights
/// of no other user.
bool belongs_to(std::int64_t pid, std::uint32_t user) {
  const auto status = slurp("/proc/" + std::to_string(pid) + "/status", 8192);
  if (!status) return false;
  for (const std::string_view line : split(*status, '\n')) {
    if (!line.starts_with("Uid:")) continue;
    const auto ids = split(trim(line.substr(4)), '\t');
    for (const std::string_view id : ids)
      if (to_number(id) != static_cast<std::int64_t>(user)) return false;
    return ids.size() == 4;
  }
  return false;
}

}  // namespace

Result<Fence> Fence::open(const Roots& roots, const std::string& name,
                          const std::string& state_folder) {
  if (::geteuid() != 0) return unsupported(text("only root can restrict jobs"));
  auto mount = system::unified_mount(roots.proc);
  if (!mount) return unsupported(text("there is no cgroup v2 here"));
  const std::string own = system::group_of(roots.proc, *mount, "self");
  const bool is_service = own.ends_with(".service") && !is_in_user_slice(own);
  const std::string note = state_folder + "/groups";
  const Earlier earlier = earlier_place(note, *mount);
  std::vector<std::string> places;
  if (!earlier.place.empty() && has_jobs(ControlGroup(earlier.place)))
    places.push_back(earlier.place);
  places.push_back((is_service ? own : mount->point) + "/" + name);
  for (int i = 2; i < 10; ++i)
    places.push_back((is_service ? own : mount->point) + "/" + name + "-" + std::to_string(i));
  auto taken = take_place(places, earlier);
  if (!taken) return std::move(taken).error();
  const std::string& place = taken->folder;
  const ControlGroup base(place);
  if (auto works = try_out(base); !works) return std::move(works).error();
  const std::string mark = earlier.mark.empty() ? new_mark() : earlier.mark;
  if (auto written = write_note(note, place + "\n" + mark + "\n"); !written)
    return std::move(written).error();
  // Without kernel support there is no mark. A folder without a mark counts as the folder of this
  // broker.
  static_cast<void>(::setxattr(place.c_str(), kMark, mark.data(), mark.size(), 0));
  if (is_in_user_slice(own)) {
    const ControlGroup ours(place + kOwn);
    if (!ours.make() || !ours.enter(0))
      return unsupported(text("the broker cannot leave the control group {}", printable(own)));
  }
  return Fence(roots, *std::move(mount), base, std::move(taken->lock));
}

ControlGroup Fence::group(JobId job) const {
  return ControlGroup(base_.folder() + "/" + std::string(kJob) + std::to_string(job));
}

void Fence::see(const model::Snapshot& snapshot) {
  nodes_ = system::gpu_nodes(roots_, snapshot.devices);
}

Result<std::string> Fence::enclose(const model::Job& job, const model::Snapshot& snapshot) {
  std::vector<std::string> units;
  for (const model::Grant& grant : job.grants) units.push_back(grant.unit);
  const auto rules = policy::node_rules(snapshot, nodes_, units);
  if (!rules) return unsupported(text("the device nodes of job {} are not known", job.id));
  const ControlGroup mine = group(job.id);
  // If a job number is used again, its new group has the same path as the old group. So do not
  // remove the old group any more: that would remove the new one.
  std::erase_if(dying_, [&](const ControlGroup& one) { return one.folder() == mine.folder(); });
  if (auto made = mine.make(); !made) return std::move(made).error();
  auto filter = DeviceFilter::load(*rules, {}, kFilterName);
  auto held = filter ? filter->hold(mine.folder()) : Result<bool>(filter.error());
  if (!held) {
    if (mine.is_empty()) static_cast<void>(mine.remove());
    return std::move(held).error();
  }
  filters_.insert_or_assign(job.id, *std::move(filter));
  return mine.folder();
}

bool Fence::has_group(JobId job) const {
  return group(job).is_there();
}

Status Fence::admit(JobId job, const model::ProcessId& process, std::uint32_t user) const {
  const auto not_theirs = [&] {
    return Error{ErrorCode::kPermissionDenied, "E0912",
                 text("process {} does not exist, or is not yours", process.pid),
                 fmt::format("ps -o pid,user,args {}", process.pid)};
  };
  const std::string pid = std::to_string(process.pid);
  const Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!handle || start_ticks_of(process.pid) != process.start_ticks ||
      !belongs_to(process.pid, user))
    return not_theirs();
  const ControlGroup before(system::group_of(roots_.proc, mount_, pid));
  if (!filters_.contains(job) || !group(job).enter(static_cast<pid_t>(process.pid)))
    return Error{ErrorCode::kUnsupported, "E0941",
                 text("process {} cannot be moved into the control group of job {}: {}",
                      process.pid, job, error_words(errno)),
                 ""};
  pollfd gone{handle.get(), POLLIN, 0};
  if (::poll(&gone, 1, 0) == 0) return Done{};
  // The process died in the meantime, so another process with the same pid may have been moved.
  // Move that process back.
  static_cast<void>(before.enter(static_cast<pid_t>(process.pid)));
  return not_theirs();
}

std::uint64_t Fence::release(JobId job) {
  const auto found = filters_.extract(job);
  const ControlGroup mine = group(job);
  if (!mine.is_there()) return 0;
  mine.kill();
  const std::uint64_t refusals = found.empty() ? 0 : found.mapped().refusals();
  if (!mine.remove()) dying_.push_back(mine);
  return refusals;
}

std::vector<JobId> Fence::clean_up(const std::function<std::optional<bool>(JobId)>& runs) {
  std::vector<JobId> unknown;
  for (const std::string& name : job_groups(base_)) {
    const auto number = to_number(std::string_view(name).substr(kJob.size()));
    const ControlGroup left(base_.folder() + "/" + name);
    if (number && *number >= 0) {
      const auto job = static_cast<JobId>(*number);
      const auto is_running = runs(job);
      if (is_running.value_or(false)) continue;
      if (!is_running && !left.is_empty()) {
        unknown.push_back(job);
        continue;
      }
    }
    left.kill();
    if (!left.remove()) dying_.push_back(left);
  }
  return unknown;
}

std::vector<std::string> Fence::keep() {
  std::vector<std::string> notes;
  for (const auto& [job, filter] : filters_) {
    const auto held = filter.hold(group(job).folder());
    if (!held)
      notes.push_back(text("the kernel no longer restricts job {} to its devices: {}", job,
                           held.error().message));
    else if (*held)
      notes.push_back(text("the device filter of job {} had been removed; it was restored", job));
  }
  std::erase_if(dying_, [](const ControlGroup& one) {
    one.kill();
    return one.remove();
  });
  return notes;
}

void Fence::leave() const {
  if (job_groups(base_).empty()) static_cast<void>(base_.remove());
}

}  // namespace berth::serve
