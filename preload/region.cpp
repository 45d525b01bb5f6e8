// The memory shared with `berth run`: found with BERTH_GUARD, mapped at the first call that
// needs it.
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "preload/ledger.hpp"
#include "preload/old_glibc.hpp"

namespace berth::guard {
namespace {

constinit Region g_region = {};
constinit int g_state = 0;  // 1: the region is mapped, -1: there is none, 0: not checked yet
constinit pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
constinit std::uint32_t g_said = 0;

/// Runs in a forked child, which must not use the entry of its parent.
void after_fork() {
  if (g_state > 0) g_region.process = nullptr;
  g_state = 0;
  forget_all();
  make_fresh(g_lock);
}

void* map(const char* folder, const char* name, bool writable, std::size_t bytes) {
  char path[4096];
  const int length = snprintf(path, sizeof(path), "%s/%s", folder, name);
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof(path)) return nullptr;
  // The writable file must not be a link. The file `limits` may be a link to memory of `berth run`.
  const int file = open(path, (writable ? O_RDWR | O_NOFOLLOW : O_RDONLY | O_NONBLOCK) | O_CLOEXEC);
  if (file < 0) return nullptr;
  const bool whole = lseek(file, 0, SEEK_END) >= static_cast<off_t>(bytes);
  void* where = whole ? mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                             MAP_SHARED, file, 0)
                      : MAP_FAILED;
  close(file);
  return where == MAP_FAILED ? nullptr : where;
}

/// Maps the files, unless they are mapped already. Returns whether both are valid. Call it with the
/// lock held.
bool map_files(const char* folder) {
  if (folder == nullptr || *folder == 0) return false;
  if (g_region.usage == nullptr) {
    g_region.limits =
        static_cast<const wire::Limits*>(map(folder, "limits", false, sizeof(wire::Limits)));
    g_region.usage = static_cast<wire::Usage*>(map(folder, "usage", true, sizeof(wire::Usage)));
    if (g_region.usage != nullptr && &__register_atfork != nullptr)
      __register_atfork(nullptr, nullptr, after_fork, &__dso_handle);
  }
  return g_region.limits != nullptr && g_region.usage != nullptr && wire::valid(*g_region.limits) &&
         wire::valid(*g_region.usage);
}

/// Whether the files are those of another version of Berth than this library.
bool has_other_version() {
  const Region& all = g_region;
  return (all.limits != nullptr && all.limits->magic == wire::kLimitsMagic &&
          all.limits->version != wire::kVersion) ||
         (all.usage != nullptr && all.usage->magic == wire::kUsageMagic &&
          all.usage->version != wire::kVersion);
}

bool is_strict() {
  const char* strict = getenv("BERTH_GUARD_STRICT");  // NOLINT(concurrency-mt-unsafe)
  return strict != nullptr && *strict != 0;
}

/// Finds and maps the region. Call it with the lock held.
int find() {
  const char* folder = getenv("BERTH_GUARD");  // NOLINT(concurrency-mt-unsafe)
  if (folder == nullptr || *folder == 0) {
    if (is_strict()) say_once(0, "berth: BERTH_GUARD is not set; with --strict, no device is used");
    return -1;
  }
  if (!map_files(folder)) {
    say_once(0, "berth: the guard cannot read what the job may use (%s%s); %s", folder,
             has_other_version() ? ": of another version of Berth" : "",
             is_strict() ? "with --strict, no device is used" : "limits not enforced");
    if (g_region.usage != nullptr && wire::valid(*g_region.usage))
      __atomic_fetch_add(&g_region.usage->unlimited, 1, __ATOMIC_RELAXED);
    g_region.usage = nullptr;
    return -1;
  }
  g_region.process = wire::take_place(*g_region.usage, getpid());
  if (g_region.process == nullptr) {
    __atomic_store_n(&g_region.usage->trouble, wire::kNoPlace, __ATOMIC_RELAXED);
    say_once(1, "berth: more than %u processes of one job use the device; %s", wire::kMaxProcesses,
             is_strict() ? "with --strict, this process gets none" : "limits not enforced in this process");
    return -1;
  }
  __atomic_fetch_add(&g_region.usage->started, 1, __ATOMIC_RELAXED);
  return 1;
}

}  // namespace

Region* region() {
  const int known = __atomic_load_n(&g_state, __ATOMIC_ACQUIRE);
  if (known > 0) return &g_region;
  if (known < 0) return nullptr;
  const Locked lock(g_lock);
  if (g_state == 0) __atomic_store_n(&g_state, find(), __ATOMIC_RELEASE);
  return g_state > 0 ? &g_region : nullptr;
}

bool must_refuse() {
  return region() == nullptr && is_strict();
}

const Region* seen_region() {
  const int known = __atomic_load_n(&g_state, __ATOMIC_ACQUIRE);
  if (known != 0) return known > 0 ? &g_region : nullptr;
  const Locked lock(g_lock);
  if (g_state != 0) return g_state > 0 ? &g_region : nullptr;
  return map_files(getenv("BERTH_GUARD")) ? &g_region : nullptr;  // NOLINT(concurrency-mt-unsafe)
}

std::uint64_t quota_of(int place) {
  return wire::read_word(g_region.limits->device[place].memory_bytes);
}
std::uint64_t memory_limit(int place) {
  const std::uint64_t quota = quota_of(place),
                      hidden = wire::read_word(g_region.limits->device[place].hidden_bytes);
  if (quota == wire::kNoLimit) return quota;
  return quota > hidden ? quota - hidden : 0;
}

std::uint64_t clock_now() {
  timespec t = {};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

void say_once(int which, const char* format, ...) {
  const std::uint32_t bit = 1U << static_cast<unsigned>(which);
  if ((__atomic_fetch_or(&g_said, bit, __ATOMIC_RELAXED) & bit) != 0) return;
  char line[512];
  va_list values;
  va_start(values, format);
  int length = vsnprintf(line, sizeof(line) - 1, format, values);
  va_end(values);
  if (length < 0) return;
  if (length > static_cast<int>(sizeof(line)) - 2) length = static_cast<int>(sizeof(line)) - 2;
  line[length++] = '\n';
  static_cast<void>(!write(2, line, static_cast<std::size_t>(length)));
}

Size show(std::uint64_t bytes) {
  Size out = {};
  const std::uint64_t hundredths =
      bytes / (1ULL << 30U) * 100 + bytes % (1ULL << 30U) * 100 / (1ULL << 30U);
  if (bytes >= 1ULL << 30U)
    snprintf(out.text, sizeof(out.text), "%llu.%02llu GiB",
             static_cast<unsigned long long>(hundredths / 100),
             static_cast<unsigned long long>(hundredths % 100));
  else if (bytes >= 1ULL << 20U)
    snprintf(out.text, sizeof(out.text), "%llu MiB", static_cast<unsigned long long>(bytes >> 20U));
  else
    snprintf(out.text, sizeof(out.text), "%llu bytes", static_cast<unsigned long long>(bytes));
  return out;
}

}  // namespace berth::guard
