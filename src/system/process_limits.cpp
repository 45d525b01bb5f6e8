#include "system/process_limits.hpp"

#include <sys/resource.h>

#include <cerrno>

namespace berth::system {
namespace {

/// Negative numbers are answers, too: errno alone says that there is none.
std::optional<int> nice_of(pid_t process) {
  errno = 0;
  const int nice = ::getpriority(PRIO_PROCESS, static_cast<id_t>(process));
  return errno == 0 ? std::optional(nice) : std::nullopt;
}

}  // namespace

model::Limits limits_of(pid_t process) {
  model::Limits limits;
  for (int resource = 0; resource < RLIMIT_NLIMITS; ++resource) {
    rlimit had = {};
    if (!model::limit_name(resource).empty() &&
        ::prlimit(process, static_cast<__rlimit_resource>(resource), nullptr, &had) == 0)
      limits.resources.push_back({resource, had.rlim_cur, had.rlim_max});
  }
  limits.nice = nice_of(process);
  return limits;
}

bool set_limits(const model::Limits& limits) {
  int problem = 0;
  for (const model::Limit& one : limits.resources) {
    const rlimit wanted{one.soft, one.hard};
    if (::setrlimit(static_cast<__rlimit_resource>(one.resource), &wanted) != 0) problem = errno;
  }
  if (limits.nice && ::setpriority(PRIO_PROCESS, 0, *limits.nice) != 0) problem = errno;
  errno = problem;
  return problem == 0;
}

}  // namespace berth::system
