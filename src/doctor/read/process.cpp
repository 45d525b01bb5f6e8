// The process facts of whoever runs the doctor.
#include "doctor/facts/process.hpp"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.hpp"
#include "doctor/read/process.hpp"
#include "model/cpu_list.hpp"
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

ProcessFacts own_process() {
  ProcessFacts facts;
  facts.identity = own_identity();
  facts.environment = environment_of(environ);
  const model::CpuBudget budget = system::read_cpu_budget(Roots{});
  if (const auto cpus = model::parse_cpu_list(budget.affinity)) facts.cpus = *cpus;
  if (budget.quota_cores) facts.quota_cores = *budget.quota_cores;
  facts.memlock_limit_bytes = limit(RLIMIT_MEMLOCK);
  facts.stack_limit_bytes = limit(RLIMIT_STACK);
  facts.open_files_limit = limit(RLIMIT_NOFILE);
  facts.processes_limit = limit(RLIMIT_NPROC);
  struct statvfs shm {};
  if (::statvfs("/dev/shm", &shm) == 0) {
    facts.shm_total_bytes = shm.f_blocks * shm.f_frsize;
    facts.shm_used_bytes = (shm.f_blocks - shm.f_bfree) * shm.f_frsize;
  } else if (errno != ENOENT) {
    facts.shm_total_bytes = facts.shm_used_bytes = Unreadable{"/dev/shm", errno};
  }
  return facts;
}

Fact<std::string> ProcessFacts::variable(std::string_view name) const {
  if (environment.is_unreadable()) return environment.why();
  if (!environment) return {};
  const auto found = environment->find(name);
  return found == environment->end() ? Fact<std::string>() : Fact<std::string>(found->second);
}

}  // namespace berth::doctor
