#include "serve/foreign_processes.hpp"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/text.hpp"
#include "policy/access.hpp"
#include "serve/watches.hpp"
#include "system/control_group.hpp"
#include "system/process.hpp"
#include "system/terminals.hpp"

namespace berth::serve {
namespace {

constexpr const char* kFilterName = "berth_enforce";
constexpr std::chrono::seconds kLookToWarn(10);
// The buffer for a group entry, which may list thousands of members.
constexpr std::size_t kEntryBytes = 1 << 20;

Error wrong(const std::string& what, const char* hint) {
  return {ErrorCode::kInvalidArgument, "E0942", what, hint};
}

std::optional<passwd> user_named(const std::string& name, std::string& buffer) {
  passwd entry{};
  passwd* found = nullptr;
  ::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) return std::nullopt;
  return entry;
}

/// The kernel program sees only a process's user and first group. So the members of each exempt
/// group are also listed as users.
Result<model::Exempt> exempt_of(const DaemonOptions& options) {
  model::Exempt exempt;
  std::string buffer(kEntryBytes, '\0'), more(kEntryBytes, '\0');
  for (const std::string& name : options.settings.exempt_users) {
    const auto user = user_named(name, buffer);
    if (!user) return wrong(text("there is no user {}", printable(name)), "getent passwd");
    exempt.uids.push_back(user->pw_uid);
  }
  for (const std::string& name : options.settings.exempt_groups) {
    group entry{};
    group* found = nullptr;
    ::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (found == nullptr)
      return wrong(text("there is no group {}", printable(name)), "getent group");
    exempt.gids.push_back(entry.gr_gid);
    for (char** member = entry.gr_mem; member != nullptr && *member != nullptr; ++member)
      if (const auto user = user_named(*member, more)) exempt.uids.push_back(user->pw_uid);
  }
  return exempt;
}

/// The control group to keep away from the GPUs: by default, the group of all login sessions.
Result<std::string> group_to_enforce_on(const DaemonOptions& options) {
  const auto mount = system::unified_mount(options.sources.roots.proc);
  if (!mount) return wrong(text("there is no cgroup v2 here"), "findmnt -t cgroup2");
  const std::string folder =
      options.enforce_on.empty() ? mount->point + "/user.slice" : options.enforce_on;
  const bool is_below = folder.starts_with(mount->point + "/") &&
                        folder.size() > mount->point.size() + 1 &&
                        folder.find("..") == std::string::npos;
  if (!is_below || !system::ControlGroup(folder).is_there())
    return wrong(text("there is no control group {} below {}", printable(folder), mount->point),
                 "systemd-cgls");
  return folder;
}

void write_note(const std::string& note, const std::string& line) {
  const Descriptor file(::open(note.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  [[maybe_unused]] const ssize_t written = ::write(file.get(), line.data(), line.size());
}

const model::Device* find(const model::Snapshot& snapshot, int index) {
  for (const model::Device& device : snapshot.devices)
    if (device.index == index) return &device;
  return nullptr;
}

}  // namespace

std::optional<Mode> mode_named(std::string_view name) {
  if (name == "observe") return Mode::kObserve;
  if (name == "warn") return Mode::kWarn;
  if (name == "enforce") return Mode::kEnforce;
  return std::nullopt;
}

Result<ForeignProcesses> ForeignProcesses::begin(const DaemonOptions& options) {
  const Mode mode = mode_named(options.settings.mode).value_or(Mode::kObserve);
  const std::string note = options.state_folder + "/enforced";
  auto exempt = exempt_of(options);
  if (!exempt) return std::move(exempt).error();
  std::string group;
  if (mode == Mode::kEnforce) {
    auto found = group_to_enforce_on(options);
    if (!found) return std::move(found).error();
    group = *std::move(found);
  }
  if (const auto before = read_line(note); before && *before != group) {
    system::remove_filters(*before, kFilterName);
    ::unlink(note.c_str());
  }
  return ForeignProcesses(mode, options.sources.roots, *std::move(exempt), std::move(group), note);
}

std::chrono::seconds ForeignProcesses::wants_look() const {
  return mode_ == Mode::kWarn ? kLookToWarn : std::chrono::seconds(0);
}

std::vector<std::string> ForeignProcesses::see(const model::Snapshot& snapshot,
                                               const std::vector<model::JobProcess>& jobs,
                                               const model::GpuNodes& nodes) {
  if (mode_ == Mode::kWarn) warn(snapshot, jobs);
  if (mode_ == Mode::kEnforce) return enforce(snapshot, nodes);
  return {};
}

bool ForeignProcesses::is_exempt(std::uint32_t uid) const {
  return std::find(exempt_.uids.begin(), exempt_.uids.end(), uid) != exempt_.uids.end();
}

void ForeignProcesses::warn(const model::Snapshot& snapshot,
                            const std::vector<model::JobProcess>& jobs) {
  const auto has_lease = [&](std::int64_t pid) {
    return std::any_of(jobs.begin(), jobs.end(),
                       [&](const model::JobProcess& one) { return one.pid == pid; });
  };
  system::UserNames users(roots_.etc);
  decltype(told_) seen;
  for (const model::DeviceProcess& one : snapshot.processes) {
    if (!one.pid || !one.uid || !one.kind.compute || has_lease(*one.pid) || is_exempt(*one.uid))
      continue;
    const auto start = start_ticks_of(*one.pid);
    if (!start || !seen.emplace(*one.pid, *start).second || told_.contains({*one.pid, *start}))
      continue;
    const model::Device* device = find(snapshot, one.device);
    const std::string sentence = text(
        "Berth: your process {} uses GPU {} ({}) without a lease, so Berth may give this GPU to "
        "others. Start it with: berth run --gpus 1 -- COMMAND",
        *one.pid, one.device, device == nullptr ? "" : printable(device->name));
    for (const std::string& terminal :
         system::terminals_of(roots_, system::kUtmp, *one.pid, users.of(*one.uid)))
      system::tell_terminal(terminal, *one.uid, sentence);
  }
  told_ = std::move(seen);
}

std::vector<std::string> ForeignProcesses::enforce(const model::Snapshot& snapshot,
                                                   const model::GpuNodes& nodes) {
  const auto rules = policy::node_rules(snapshot, nodes, {});
  if (!rules) return {};
  if (!filter_ || *rules != rules_) {
    auto filter = system::DeviceFilter::load(*rules, exempt_, kFilterName);
    if (!filter) return {text("restrictions are not enforced: {}", filter.error().message)};
    filter_ = *std::move(filter);
    rules_ = *rules;
    write_note(note_, group_);
    const auto held = filter_->hold(group_);
    if (!held) return {text("restrictions are not enforced: {}", held.error().message)};
  }
  return {};
}

std::vector<std::string> ForeignProcesses::keep() {
  if (!filter_) return {};
  const auto held = filter_->hold(group_);
  if (!held) return {text("restrictions are not enforced: {}", held.error().message)};
  if (*held) return {text("the device filter of {} had been removed; it was restored", group_)};
  return {};
}

void ForeignProcesses::take_back() {
  if (!filter_) return;
  system::remove_filters(group_, kFilterName);
  filter_.reset();
  ::unlink(note_.c_str());
}

}  // namespace berth::serve
