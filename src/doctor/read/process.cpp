// Reads facts about the process that runs the doctor.
#include "doctor/facts/process.hpp"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "base/file.hpp"
#include "doctor/read/process.hpp"
#include "doctor/tree/tree.hpp"
#include "model/cpu_list.hpp"
#include "system/cgroup.hpp"
#include "system/host.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace berth::doctor {
namespace {

Fact<Identity> own_identity() {
  Identity identity;
  identity.uid = ::geteuid();
  identity.gid = ::getegid();
  const int count = ::getgroups(0, nullptr);
  if (count < 0) return Unreadable{"getgroups", errno};
  identity.groups.resize(static_cast<std::size_t>(count));
  if (::getgroups(count, identity.groups.data()) < 0) return Unreadable{"getgroups", errno};
  return identity;
}

Fact<std::uint64_t> limit(__rlimit_resource_t resource) {
  rlimit value{};
  if (::getrlimit(resource, &value) != 0) return Unreadable{"getrlimit", errno};
  if (value.rlim_cur == RLIM_INFINITY) return {};
  return static_cast<std::uint64_t>(value.rlim_cur);
}

/// The cgroups whose pids limits apply to a process: its own, and all above it.
std::vector<std::string> counting_groups(const std::string& mounts, const std::string& groups) {
  const auto counts = [](const std::vector<std::string>& controllers) {
    return std::find(controllers.begin(), controllers.end(), "pids") != controllers.end();
  };
  std::vector<std::string> found;
  for (const system::CgroupMount& mount : system::parse_cgroup_mounts(mounts)) {
    if (!mount.v2 && !counts(mount.controllers)) continue;
    for (const system::CgroupMembership& one : system::parse_cgroup(groups)) {
      if (one.v2 != mount.v2 || (!one.v2 && !counts(one.controllers))) continue;
      for (std::string& folder : system::group_folders(mount, one.path))
        found.push_back(std::move(folder));
    }
  }
  return found;
}

}  // namespace

Environment environment_of(const char* const* variables) {
  Environment found;
  for (; variables != nullptr && *variables != nullptr; ++variables) {
    const std::string_view row(*variables);
    if (const auto equals = row.find('='); equals != std::string_view::npos)
      found.emplace(row.substr(0, equals), row.substr(equals + 1));
  }
  return found;
}

Environment environment_from(std::string_view text) {
  Environment found;
  const char end = text.find('\0') == std::string_view::npos ? '\n' : '\0';
  for (const std::string_view row : split(text, end))
    if (const auto equals = row.find('='); equals != std::string_view::npos && equals > 0)
      found.emplace(row.substr(0, equals), row.substr(equals + 1));
  return found;
}

void read_processes_limit(const std::string& process, const std::string& viewer,
                          ProcessFacts& facts) {
  const auto unread = [&](const std::string& where, int error) {
    facts.cgroup_processes_limit = Unreadable{where, error};
  };
  int error = 0;
  const auto mounts = slurp(viewer + "/mountinfo", 1 << 20, &error);
  if (!mounts) return unread(viewer + "/mountinfo", error);
  const auto groups = slurp(process + "/cgroup", 1 << 16, &error);
  if (!groups) return unread(process + "/cgroup", error);
  const auto folders = counting_groups(*mounts, *groups);
  if (folders.empty()) return unread("pids.max", ENOENT);
  std::int64_t least = -1;
  for (const std::string& folder : folders) {
    // The root cgroup has no file pids.max. "max" means that there is no limit.
    const auto text = slurp(folder + "/pids.max", 64, &error);
    if (!text && error != ENOENT) return unread(folder + "/pids.max", error);
    const auto most = text ? to_number(trim(*text)) : std::nullopt;
    if (!most || *most < 0) continue;
    const auto now = read_number(folder + "/pids.current");
    const std::int64_t left = *most - now.value_or(0);
    if (least >= 0 && left >= least) continue;
    least = std::max<std::int64_t>(left, 0);
    // The remaining number of processes: pids.max minus pids.current.
    facts.cgroup_processes_limit = static_cast<std::uint64_t>(least);
  }
}

void read_shm(const std::string& folder, ProcessFacts& facts) {
  struct statvfs shm {};
  if (::statvfs(folder.c_str(), &shm) == 0) {
    facts.shm_total_bytes = shm.f_blocks * shm.f_frsize;
    facts.shm_used_bytes = (shm.f_blocks - shm.f_bfree) * shm.f_frsize;
  } else if (errno != ENOENT) {
    facts.shm_total_bytes = facts.shm_used_bytes = Unreadable{folder, errno};
  }
}

/// Whether the user has an entry in /etc/passwd. The C library's functions are not used: a
/// directory service may take minutes to answer, and its client code would be loaded into this
/// process.
Fact<bool> own_account(const Tree& tree) {
  const auto accounts = tree.read("/etc/passwd", 1 << 20);
  const auto services = tree.read("/etc/nsswitch.conf", 1 << 16);
  if (accounts.is_unreadable()) return accounts.why();
  if (services.is_unreadable()) return services.why();
  return account_in(accounts.value_or(""), services.value_or(""), ::geteuid());
}

Environment own_environment() {
  // pyenv's choice depends on the working directory. PWD may be outdated, so use the real one.
  Environment environment = environment_of(environ);
  std::array<char, PATH_MAX> here{};
  if (::getcwd(here.data(), here.size()) != nullptr)
    environment.insert_or_assign("PWD", here.data());
  return environment;
}

ProcessFacts own_process(const Tree& tree) {
  ProcessFacts facts;
  facts.identity = own_identity();
  Environment environment = own_environment();
  facts.disk_space = disk_space_of(tree, environment, ::geteuid());
  facts.has_account = own_account(tree);
  facts.environment = std::move(environment);
  const model::CpuBudget budget = system::read_cpu_budget(Roots{});
  if (const auto cpus = model::parse_cpu_list(budget.affinity)) facts.cpus = *cpus;
  if (budget.quota_cores) facts.quota_cores = *budget.quota_cores;
  facts.memlock_limit_bytes = limit(RLIMIT_MEMLOCK);
  facts.stack_limit_bytes = limit(RLIMIT_STACK);
  facts.address_space_limit_bytes = limit(RLIMIT_AS);
  facts.open_files_limit = limit(RLIMIT_NOFILE);
  facts.processes_limit = limit(RLIMIT_NPROC);
  read_processes_limit("/proc/self", "/proc/self", facts);
  read_shm("/dev/shm", facts);
  return facts;
}

Fact<std::string> ProcessFacts::variable(std::string_view name) const {
  if (environment.is_unreadable()) return environment.why();
  if (!environment) return {};
  const auto found = environment->find(name);
  return found == environment->end() ? Fact<std::string>() : Fact<std::string>(found->second);
}

}  // namespace berth::doctor
