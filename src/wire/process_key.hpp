// Identifies a process by pid and start time, because a pid can be reused. Uses no libstdc++, so
// that it also works in a library that is loaded into other programs.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace berth::wire {

/// Fields of /proc/PID/stat.
struct ProcessStat {
  std::uint64_t start = 0;  // in clock ticks since boot; 0 if the file cannot be read
  char state = 0;
  std::uint64_t threads = 0;
};

namespace detail {

inline std::size_t put_number(char* into, std::int64_t number) {
  char digits[20];
  std::size_t n = 0, at = 0;
  auto left = static_cast<std::uint64_t>(number < 0 ? 0 : number);
  do digits[n++] = static_cast<char>('0' + left % 10);
  while ((left /= 10) != 0);
  while (n > 0) into[at++] = digits[--n];
  return at;
}

inline std::uint64_t number_at(const char* text) {
  std::uint64_t value = 0;
  for (; *text >= '0' && *text <= '9'; ++text)
    value = value * 10 + static_cast<std::uint64_t>(*text - '0');
  return value;
}

}  // namespace detail

inline ProcessStat stat_of(std::int64_t pid) {
  char path[48] = "/proc/";
  std::size_t at = 6 + detail::put_number(path + 6, pid);
  for (const char* rest = "/stat"; *rest != 0; ++rest) path[at++] = *rest;
  path[at] = 0;
  char text[1024];
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const auto size = read(file, text, sizeof(text) - 1);
  close(file);
  if (size <= 0) return {};
  text[size] = 0;
  // The field before is the name in parentheses, which may contain any character.
  const char* field = text + size;
  while (field > text && *field != ')') --field;
  if (*field != ')' || field[1] != ' ') return {};
  ProcessStat out;
  field += 2;
  out.state = *field;
  for (int number = 3; *field != 0 && number < 22; ++field) {
    if (*field != ' ') continue;
    ++number;
    if (number == 20) out.threads = detail::number_at(field + 1);
    if (number == 22) out.start = detail::number_at(field + 1);
  }
  return out;
}

/// Whether the process lives. False only if it is certain that the pid is unused, was reused, or is
/// that of a zombie.
inline bool lives(std::int64_t pid, std::uint64_t start) {
  char path[40] = "/proc/";
  const ProcessStat now = stat_of(pid);
  if (now.start == 0) {
    path[6 + detail::put_number(path + 6, pid)] = 0;
    const bool proc = access("/proc/self", F_OK) == 0;
    return !proc || access(path, F_OK) == 0;
  }
  if (now.start != start) return false;
  return (now.state != 'Z' && now.state != 'X') || now.threads > 1;
}

/// The state of a table's place while a process takes it. The same word contains the pid, because
/// the process may die before it writes more.
inline constexpr std::uint32_t kTakenState = 1;
inline std::uint32_t taken_by(std::int64_t pid) {
  return kTakenState | static_cast<std::uint32_t>(pid) << 4U;
}
inline bool is_abandoned(std::uint32_t state) {
  if ((state & 15U) != kTakenState) return false;
  const std::int64_t pid = state >> 4U;
  return !lives(pid, stat_of(pid).start);
}
inline void raise_count(std::uint32_t& count, std::uint32_t to) {
  std::uint32_t was = __atomic_load_n(&count, __ATOMIC_RELAXED);
  while (was < to &&
         !__atomic_compare_exchange_n(&count, &was, to, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
}

}  // namespace berth::wire
