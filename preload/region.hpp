// What the guard's libraries share: the job's limits and counters as mapped in this process, and
// functions that print a line to stderr. Each library has its own copy of this code. They need only
// libc. If anything in them fails, they let the program continue and report that.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/guard.hpp"

namespace berth::guard {

namespace wire = berth::wire::guard;

#define GUARD_EXPORT extern "C" __attribute__((visibility("default")))

/// The job's limits and usage, as mapped in this process; nullptr: the guard limits nothing.
struct Region {
  const wire::Limits* limits;
  wire::Usage* usage;
  wire::Process* process;
};
[[nodiscard]] Region* region();
/// The region for a process that only reads it. The process gets no entry in the list of the job's
/// processes, so `process` may be nullptr.
[[nodiscard]] const Region* seen_region();
/// Whether a program must not use CUDA or OpenCL here: the guard limits nothing in it, although the
/// job was started with --strict.
[[nodiscard]] bool must_refuse();
/// Called in a child after fork(), because what the library recorded belongs to the parent. Each
/// library defines its own forget_all().
void forget_all();
/// quota_of() returns the job's memory on a device. memory_limit() returns the part that
/// allocations may use; contexts and modules take the rest.
[[nodiscard]] std::uint64_t quota_of(int place);
[[nodiscard]] std::uint64_t memory_limit(int place);
[[nodiscard]] std::uint64_t clock_now();
/// Prints a line to stderr. Further lines with the same `which` are not printed.
void say_once(int which, const char* format, ...) __attribute__((format(printf, 2, 3)));
/// A size as text, such as "1.50 GiB", made without allocation or locale.
struct Size {
  char text[32];
};
[[nodiscard]] Size show(std::uint64_t bytes);
/// A process as text, such as "python (pid 12)". The name is "?" if /proc cannot be read.
struct Who {
  char text[64];
};
[[nodiscard]] Who who(std::int64_t pid);
void tell_refused(int place, std::uint64_t bytes);

}  // namespace berth::guard
