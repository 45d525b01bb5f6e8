#include "system/process_limits.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "model/cpu_list.hpp"

namespace berth::system {
namespace {

/// The nice value of a process. Negative values are valid, so only errno shows a failure.
std::optional<int> nice_of(pid_t process) {
  errno = 0;
  const int nice = ::getpriority(PRIO_PROCESS, static_cast<id_t>(process));
  return errno == 0 ? std::optional(nice) : std::nullopt;
}

/// The value after a key such as "SigIgn:" in /proc/PID/status.
std::string_view field_of(std::string_view status, std::string_view name) {
  // The name of the process is in the first line and may look like a field. Every real field has a
  // newline before it.
  const auto at = status.find("\n" + std::string(name));
  if (at == std::string_view::npos) return {};
  const std::string_view rest = status.substr(at + 1 + name.size());
  return trim(rest.substr(0, rest.find('\n')));
}

std::optional<std::uint64_t> mask_of(std::string_view hexadecimal) {
  std::uint64_t mask = 0;
  const char* const end = hexadecimal.data() + hexadecimal.size();
  const auto [at, problem] = std::from_chars(hexadecimal.data(), end, mask, 16);
  if (hexadecimal.empty() || problem != std::errc() || at != end) return std::nullopt;
  return mask;
}

void read_status(const std::string& folder, model::Limits& into) {
  const std::string status = slurp(folder + "/status").value_or("");
  into.blocked = mask_of(field_of(status, "SigBlk:"));
  into.ignored = mask_of(field_of(status, "SigIgn:"));
  into.no_new_privileges = field_of(status, "NoNewPrivs:") == "1";
  into.cpus = model::parse_cpu_list(field_of(status, "Cpus_allowed_list:")).value_or(into.cpus);
  if (const auto adj = read_number(folder + "/oom_score_adj"))
    into.oom_score_adj = static_cast<int>(*adj);
}

bool set_oom_score_adj(int wanted) {
  // If the value is already set, do not write it again, because writing may need a permission.
  if (read_number("/proc/self/oom_score_adj") == wanted) return true;
  const Descriptor file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  const std::string words = std::to_string(wanted);
  return file &&
         ::write(file.get(), words.data(), words.size()) == static_cast<ssize_t>(words.size());
}

}  // namespace

model::Limits limits_of(pid_t process) {
  model::Limits limits;
  read_status(process == 0 ? "/proc/self" : "/proc/" + std::to_string(process), limits);
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
  if (limits.oom_score_adj && !set_oom_score_adj(*limits.oom_score_adj)) problem = errno;
  if (limits.nice && ::setpriority(PRIO_PROCESS, 0, *limits.nice) != 0) problem = errno;
  errno = problem;
  return problem == 0;
}

}  // namespace berth::system
