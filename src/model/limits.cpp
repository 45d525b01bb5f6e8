#include "model/limits.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <utility>

namespace berth::model {
namespace {

constexpr std::array<std::pair<int, std::string_view>, 16> kNames{
    {{RLIMIT_CPU, "cpu"},
     {RLIMIT_FSIZE, "fsize"},
     {RLIMIT_DATA, "data"},
     {RLIMIT_STACK, "stack"},
     {RLIMIT_CORE, "core"},
     {RLIMIT_RSS, "rss"},
     {RLIMIT_NPROC, "nproc"},
     {RLIMIT_NOFILE, "nofile"},
     {RLIMIT_MEMLOCK, "memlock"},
     {RLIMIT_AS, "as"},
     {RLIMIT_LOCKS, "locks"},
     {RLIMIT_SIGPENDING, "sigpending"},
     {RLIMIT_MSGQUEUE, "msgqueue"},
     {RLIMIT_NICE, "nice"},
     {RLIMIT_RTPRIO, "rtprio"},
     {RLIMIT_RTTIME, "rttime"}}};

const Limit* find(const Limits& limits, int resource) {
  for (const Limit& one : limits.resources)
    if (one.resource == resource) return &one;
  return nullptr;
}

}  // namespace

std::string_view limit_name(int resource) {
  for (const auto& [number, name] : kNames)
    if (number == resource) return name;
  return {};
}

std::optional<int> limit_of(std::string_view name) {
  for (const auto& [number, known] : kNames)
    if (known == name) return number;
  return std::nullopt;
}

Limits filled(Limits told, const Limits& rest) {
  for (const Limit& one : rest.resources)
    if (find(told, one.resource) == nullptr) told.resources.push_back(one);
  if (!told.nice) told.nice = rest.nice;
  if (!told.oom_score_adj) told.oom_score_adj = rest.oom_score_adj;
  if (told.cpus.empty()) told.cpus = rest.cpus;
  if (!told.blocked) told.blocked = rest.blocked;
  if (!told.ignored) told.ignored = rest.ignored;
  told.no_new_privileges = told.no_new_privileges || rest.no_new_privileges;
  return told;
}

Limits within(Limits told, const Limits& most) {
  for (Limit& one : told.resources) {
    if (const Limit* bound = find(most, one.resource); bound != nullptr)
      one.hard = std::min(one.hard, bound->hard);
    one.soft = std::min(one.soft, one.hard);
  }
  if (told.nice && most.nice) told.nice = std::max(*told.nice, *most.nice);
  if (told.oom_score_adj && most.oom_score_adj)
    told.oom_score_adj = std::max(*told.oom_score_adj, *most.oom_score_adj);
  if (!most.cpus.empty()) {
    std::erase_if(told.cpus, [&](int cpu) {
      return std::find(most.cpus.begin(), most.cpus.end(), cpu) == most.cpus.end();
    });
    if (told.cpus.empty()) told.cpus = most.cpus;
  }
  told.no_new_privileges = told.no_new_privileges || most.no_new_privileges;
  return told;
}

}  // namespace berth::model
