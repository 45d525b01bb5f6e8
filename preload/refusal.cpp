// Prints one line to stderr if the quota refuses memory: which process asked for how much, and
// which process holds the rest.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "preload/region.hpp"

namespace berth::guard {
namespace {

std::uint64_t used_by(const wire::Process& process, int place) {
  return wire::read_word(process.device[place].used);
}

/// The other process of the job that holds the most memory; nullptr: no other process holds any.
const wire::Process* largest_other(int place) {
  const Region& here = *region();
  const wire::Process* largest = nullptr;
  for (std::uint32_t i = 0; i < wire::places_of(*here.usage); ++i) {
    const wire::Process& one = here.usage->process[i];
    if (&one == here.process || used_by(one, place) == 0 ||
        __atomic_load_n(&one.state, __ATOMIC_ACQUIRE) != wire::kLives)
      continue;
    if (largest == nullptr || used_by(one, place) > used_by(*largest, place)) largest = &one;
  }
  return largest;
}

}  // namespace

Who who(std::int64_t pid) {
  char path[40], name[32] = "?";
  snprintf(path, sizeof(path), "/proc/%lld/comm", static_cast<long long>(pid));
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    const ssize_t size = read(file, name, sizeof(name) - 1);
    close(file);
    name[size > 0 ? size : 0] = 0;
  }
  for (char& c : name) {
    if (c == '\n') c = 0;
    if (c != 0 && (c < ' ' || c > '~')) c = '?';
  }
  Who out = {};
  snprintf(out.text, sizeof(out.text), "%s (pid %lld)", name, static_cast<long long>(pid));
  return out;
}

void tell_refused(int place, std::uint64_t bytes) {
  const int error = errno;
  const std::uint64_t used = wire::sum_of(*region()->usage, static_cast<std::uint32_t>(place)).used,
                      own = used_by(*region()->process, place);
  const std::uint64_t quota = quota_of(place), hidden = quota - memory_limit(place);
  if (hidden == quota && quota != 0) {
    say_once(
        2,
        "berth: out of memory by the job's quota: CUDA itself (contexts, modules) takes all of "
        "%s here, so %s gets no memory; ask for more than that",
        show(quota).text, who(getpid()).text);
    errno = error;
    return;
  }
  char by_cuda[64] = "";
  if (hidden > 0)
    snprintf(by_cuda, sizeof(by_cuda), ", %s by contexts and modules", show(hidden).text);
  char others[128] = "no other process of the job holds any";
  if (const wire::Process* largest = largest_other(place))
    snprintf(others, sizeof(others), "%s by others of the job, most by %s",
             show(used > own ? used - own : 0).text, who(largest->pid).text);
  say_once(2,
           "berth: out of memory by the job's quota: %s asked for %s, %s of %s in use: %s by this "
           "process%s, %s",
           who(getpid()).text, show(bytes).text, show(used + hidden).text, show(quota).text,
           show(own).text, by_cuda, others);
  errno = error;
}

}  // namespace berth::guard
