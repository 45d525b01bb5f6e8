#include "simulator/cuda_core.hpp"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "simulator/state_file.hpp"

namespace berth::simulator {
namespace {

constinit wire::View g_view;
constinit wire::CudaShared* g_shared = nullptr;
constinit wire::CudaProcess* g_self = nullptr;
constinit int g_devices = 0;
constinit std::uint32_t g_numbers[wire::kCudaDevices] =
    {};  // for each visible device, in CUDA's order: the device's number in the shared memory
constinit pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
constinit bool g_watches_forks = false;

/// Runs in a forked child. The child must initialise the driver again, because a real driver also
/// refuses to work in a forked child.
void after_fork() {
  g_self = nullptr;
}

bool is_separator(char c) {
  return c == 0 || c == ',';
}

/// Finds the device for an entry of CUDA_VISIBLE_DEVICES ("2", "GPU-6e4a…") among the first
/// `count`. Returns its position, or -1.
int place_named(const char* text, std::size_t size, const std::uint32_t* numbers, int count) {
  if (size > 0 && text[0] >= '0' && text[0] <= '9') {
    const std::uint64_t place = berth::wire::detail::number_at(text);
    return place < static_cast<std::uint64_t>(count) ? static_cast<int>(place) : -1;
  }
  if (size <= 4) return -1;
  for (int i = 0; i < count; ++i)
    if (strncmp(g_view.device(numbers[i]).uuid, text, size) == 0) return i;
  return -1;
}

/// Keeps the devices that CUDA_VISIBLE_DEVICES selects. As in CUDA, an invalid entry ends the list.
void choose_visible(const std::uint32_t* all, int count) {
  const char* list = getenv("CUDA_VISIBLE_DEVICES");  // NOLINT(concurrency-mt-unsafe)
  g_devices = 0;
  if (list == nullptr) {
    for (int i = 0; i < count; ++i) g_numbers[g_devices++] = all[i];
    return;
  }
  while (*list != 0 && g_devices < static_cast<int>(wire::kCudaDevices)) {
    while (*list == ' ') ++list;
    std::size_t size = 0;
    while (!is_separator(list[size])) ++size;
    const int place = place_named(list, size, all, count);
    if (place < 0) return;
    for (int i = 0; i < g_devices; ++i)
      if (g_numbers[i] == all[place]) {
        g_devices = 0;
        return;
      }
    g_numbers[g_devices++] = all[place];
    list += size + (list[size] == ',' ? 1 : 0);
  }
}

/// Lists the devices in CUDA's order: the fastest first, or by PCI address if CUDA_DEVICE_ORDER
/// says so.
void list_devices() {
  std::uint32_t all[wire::kCudaDevices];
  int count = 0;
  for (std::uint32_t i = 0; i < g_view.state().devices && i < wire::kCudaDevices; ++i)
    if (g_view.device(i).vendor == wire::kNvidia) all[count++] = i;
  const char* order = getenv("CUDA_DEVICE_ORDER");  // NOLINT(concurrency-mt-unsafe)
  const bool by_bus = order != nullptr && strcmp(order, "PCI_BUS_ID") == 0;
  const auto before = [by_bus](std::uint32_t a, std::uint32_t b) {
    const wire::Device &x = g_view.device(a), &y = g_view.device(b);
    if (!by_bus && x.cores != y.cores) return x.cores > y.cores;
    return x.vendor_index < y.vendor_index;
  };
  for (int i = 1; i < count; ++i)
    for (int k = i; k > 0 && before(all[k], all[k - 1]); --k) {
      const std::uint32_t other = all[k];
      all[k] = all[k - 1];
      all[k - 1] = other;
    }
  choose_visible(all, count);
}

bool map_all() {
  if (g_shared != nullptr) return true;
  std::size_t bytes = 0;
  auto* state =
      static_cast<const wire::State*>(map_file("state", false, sizeof(wire::State), &bytes));
  if (state == nullptr || !wire::valid(state, bytes)) return false;
  auto* shared =
      static_cast<wire::CudaShared*>(map_file("cuda", true, sizeof(wire::CudaShared), &bytes));
  if (shared == nullptr) return false;
  if (shared->magic != wire::kCudaMagic || shared->version != wire::kCudaVersion) return false;
  g_view = wire::View(state, nullptr);
  g_shared = shared;
  return true;
}

/// Reads the path of this process's control group (v2), relative to the mount point.
void read_group(char* into) {
  char text[4096];
  const int file = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
  const ssize_t size = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
  if (file >= 0) close(file);
  text[size > 0 ? size : 0] = 0;
  into[0] = 0;
  for (const char* line = text; *line != 0;) {
    const std::size_t length = strcspn(line, "\n");
    if (strncmp(line, "0::", 3) == 0 && length - 3 < wire::kCudaGroup) {
      memcpy(into, line + 3, length - 3);
      into[length - 3] = 0;
    }
    line += length + (line[length] == '\n' ? 1 : 0);
  }
}

/// Returns this process's entry in the shared table. If it has no entry yet, takes a free one, or
/// the entry of a dead process.
wire::CudaProcess* take_place() {
  const std::int64_t pid = getpid();
  const std::uint64_t start = berth::wire::stat_of(pid).start;
  const wire::CudaLock lock(*g_shared);
  wire::bury_the_dead(*g_shared);
  for (std::uint32_t i = 0; i < wire::kCudaProcesses; ++i) {
    wire::CudaProcess& place = g_shared->process[i];
    if (place.pid != 0) continue;
    for (wire::CudaQueue& queue : place.queue) {
      queue.submitted = queue.done = queue.kernels = 0;
      queue.marks_made = queue.marks_known = 0;
    }
    read_group(place.group);
    place.start = start;
    place.pid = pid;
    if (i >= g_shared->processes) g_shared->processes = i + 1;
    return &place;
  }
  return nullptr;
}

CUresult trouble() {
  const std::uint64_t start = static_cast<std::uint64_t>(g_view.state().start_monotonic),
                      now = clock_now(), since = now < start ? 0 : now - start;
  for (std::uint32_t i = 0; i < g_view.state().faults; ++i) {
    const wire::Fault& fault = g_view.fault(i);
    if (fault.device != wire::kNone || since < fault.from) continue;
    if (fault.kind == wire::kNoDriver) return CUDA_ERROR_NO_DEVICE;
    if (fault.kind == wire::kMismatch) return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  }
  return CUDA_SUCCESS;
}

CUresult begin_locked() {
  if (!map_all() || g_view.state().driver_present == 0) return CUDA_ERROR_NO_DEVICE;
  if (const CUresult result = trouble(); result != CUDA_SUCCESS) return result;
  list_devices();
  if (g_devices == 0) return CUDA_ERROR_NO_DEVICE;
  if (!g_watches_forks) pthread_atfork(nullptr, nullptr, after_fork);
  g_watches_forks = true;
  wire::CudaProcess* place = take_place();
  if (place == nullptr) return CUDA_ERROR_UNKNOWN;
  __atomic_store_n(&g_self, place, __ATOMIC_RELEASE);
  return CUDA_SUCCESS;
}

}  // namespace

std::uint64_t clock_now() {
  timespec t = {};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

wire::CudaShared& shared() {
  return *g_shared;
}
wire::CudaProcess& self() {
  return *g_self;
}
bool begun() {
  return __atomic_load_n(&g_self, __ATOMIC_ACQUIRE) != nullptr;
}

CUresult begin() {
  if (begun()) return CUDA_SUCCESS;
  pthread_mutex_lock(&g_lock);
  const CUresult result = begun() ? CUDA_SUCCESS : begin_locked();
  pthread_mutex_unlock(&g_lock);
  return result;
}

int device_count() {
  return g_devices;
}
bool is_device(CUdevice device) {
  return device >= 0 && device < g_devices;
}
const wire::Device& describe(CUdevice device) {
  return g_view.device(g_numbers[device]);
}
std::uint32_t number_of(CUdevice device) {
  return g_numbers[device];
}
std::uint32_t cuda_version() {
  return map_all() ? g_view.state().cuda_version : 0;
}

CUresult charge(CUdevice device, std::uint64_t bytes) {
  const std::uint32_t number = number_of(device);
  const wire::CudaLock lock(shared());
  const std::uint64_t room = shared().device[number].room;
  for (int turn = 0; turn < 2; ++turn) {
    const std::uint64_t used = wire::cuda_memory_used(shared(), number);
    if (bytes <= room && used <= room - bytes && wire::may_have(shared(), self(), number, bytes)) {
      self().used[number] += bytes;
      return CUDA_SUCCESS;
    }
    if (turn == 0) wire::bury_the_dead(shared());
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

void give_back(CUdevice device, std::uint64_t bytes) {
  const wire::CudaLock lock(shared());
  self().used[number_of(device)] -= bytes;
}

}  // namespace berth::simulator
