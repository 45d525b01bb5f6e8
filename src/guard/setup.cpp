#include "guard/setup.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "base/write_file.hpp"
#include "guard/container.hpp"
#include "guard/context_cost.hpp"
#include "guard/limits_page.hpp"
#include "guard/usage_file.hpp"
#include "system/runtime_folder.hpp"
#include "wire/guard.hpp"
#include "wire/turns.hpp"

extern "C" const unsigned char berth_guard_library[], berth_guard_library_end[],
    berth_guard_layer[], berth_guard_layer_end[];

namespace berth::guard {
namespace {

namespace wire = berth::wire::guard;
namespace turns = berth::wire::turns;

Error failed(const std::string& path) {
  return {ErrorCode::kUnavailable, "E0520",
          text("the guard cannot use {}: {}", printable(path), error_words(errno)), ""};
}

/// Writes a temporary file and renames it, so that readers never see a partial one.
Status put_file(const std::string& path, std::string_view bytes, mode_t mode) {
  if (replace_file(path, bytes, mode)) return Done{};
  return failed(path);
}

/// A sparse file of zeros that starts with `head`.
Status put_hole(const std::string& path, std::string_view head, std::size_t bytes) {
  const Descriptor file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file && ::ftruncate(file.get(), static_cast<off_t>(bytes)) == 0 &&
      write_all(file.get(), head))
    return Done{};
  return failed(path);
}

std::string_view library_bytes() {
  return {reinterpret_cast<const char*>(berth_guard_library),
          static_cast<std::size_t>(berth_guard_library_end - berth_guard_library)};
}
/// The bytes of the guard's library for OpenCL (an OpenCL layer).
std::string_view layer_bytes() {
  return {reinterpret_cast<const char*>(berth_guard_layer),
          static_cast<std::size_t>(berth_guard_layer_end - berth_guard_layer)};
}

/// A checksum. It is computed at the start of each job, so it must be fast: it processes eight
/// bytes at a time.
std::string checksum(std::string_view bytes) {
  std::uint64_t sum = 0xcbf29ce484222325;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof sum) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
    sum = (sum ^ word) * 0x9e3779b97f4a7c15;
    sum ^= sum >> 32U;
  }
  return fmt::format("{:016x}", sum);
}

/// Whether the library at `path` can be loaded. A file system that is mounted with noexec prevents
/// that.
bool can_be_loaded(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return false;
  void* where = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0);
  if (where == MAP_FAILED) return false;
  ::munmap(where, 4096);
  return true;
}

/// Writes a library to the first folder from which libraries can be loaded. The file's name
/// contains a checksum, so that an older version is never used by mistake.
Result<std::string> library_file(const std::string& runtime, std::string_view start,
                                 std::string_view bytes) {
  const std::string name = fmt::format("/{}-{}.so", start, checksum(bytes));
  Error last{ErrorCode::kUnavailable, "E0520", text("the guard has no folder for its library"), ""};
  for (const std::string& folder : {runtime, system::state_folder()}) {
    bool made = false;
    if (folder.empty() || folder.find_first_of(": ") != std::string::npos) continue;
    if (auto usable = system::make_private_folder(folder, made); !usable) {
      last = usable.error();
      continue;
    }
    const std::string path = folder + name;
    if (can_be_loaded(path)) return path;
    if (auto put = put_file(path, bytes, 0555); !put) {
      last = put.error();
      continue;
    }
    if (can_be_loaded(path)) return path;
    last = failed(path);
    ::unlink(path.c_str());
  }
  return last;
}

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// Converts a UUID such as "GPU-6e4a…" to CUDA's 16 bytes. Returns false if the UUID is invalid.
bool bytes_of(std::string_view uuid, unsigned char* into) {
  const auto dash = uuid.find('-');
  if (dash == std::string_view::npos) return false;
  std::size_t n = 0;
  for (const char c : uuid.substr(dash + 1)) {
    if (c == '-') continue;
    const int digit = hex(c);
    if (digit < 0 || n == 32) return false;
    into[n / 2] = static_cast<unsigned char>(into[n / 2] << 4 | digit);
    ++n;
  }
  return n == 32;
}

/// Hard-links the turns file of a device into the job's folder. All jobs of this user share this
/// file and take turns on the device with it. Creates the shared file if it does not exist.
Status link_turns(const std::string& runtime, const std::string& folder, const std::string& name) {
  const std::string shared = runtime + "/" + name, linked = folder + "/" + name;
  if (::link(shared.c_str(), linked.c_str()) == 0) return Done{};
  auto head = std::make_unique<turns::Turns>();
  head->magic = turns::kMagic;
  head->version = turns::kVersion;
  const std::string draft = shared + "." + std::to_string(::getpid());
  ::unlink(draft.c_str());
  const std::string_view bytes(reinterpret_cast<const char*>(head.get()), sizeof(turns::Turns));
  if (auto put = put_hole(draft, bytes, sizeof(turns::Turns)); !put) return put;
  // If several jobs create the file at the same time, the first one wins.
  const bool made = ::link(draft.c_str(), shared.c_str()) == 0 || errno == EEXIST;
  ::unlink(draft.c_str());
  if (made && ::link(shared.c_str(), linked.c_str()) == 0) return Done{};
  return failed(shared);
}

Error unguarded(const std::string& uuid, const std::string& why) {
  return {ErrorCode::kUnavailable, "E1032",
          text("{} cannot be used for a job: {}", printable(uuid), why), "berth k8s devices"};
}

const model::Device* device_at(const model::Snapshot& snapshot, int index) {
  for (const model::Device& device : snapshot.devices)
    if (device.index == index) return &device;
  return nullptr;
}

bool has_cuda(const model::Device& device) {
  return device.kind == model::DeviceKind::kGpu && device.vendor == model::Vendor::kNvidia;
}

/// Converts an address such as "0000:81:00.0" with wire::pci_word(). Returns 0 if it is not an
/// address.
std::uint64_t pci_word_of(const std::string& address) {
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  int end = 0;
  if (std::sscanf(address.c_str(), "%x:%x:%x.%x%n", &domain, &bus, &slot, &function, &end) != 4 ||
      static_cast<std::size_t>(end) != address.size())
    return 0;
  return wire::pci_word(domain, bus, slot, function);
}

/// Stores how the guard recognises the device; false if the guard cannot limit it.
bool identify(const model::Device& device, const std::string& part, const model::Snapshot& snapshot,
              wire::DeviceLimit& limit) {
  limit.pci = part.empty() ? pci_word_of(device.pci_address) : 0;
  if (has_cuda(device)) return bytes_of(part.empty() ? device.uuid : part, limit.uuid);
  if (limit.pci != 0)
    return device.kind == model::DeviceKind::kGpu || device.kind == model::DeviceKind::kOpenCl;
  if (device.kind != model::DeviceKind::kOpenCl) return false;
  limit.flags |= wire::kNamedDevice;
  std::uint64_t words[2] = {wire::name_word(device.name.data(), device.name.size()), 0};
  for (const model::Device& other : snapshot.devices)
    if (other.kind == model::DeviceKind::kOpenCl && other.name == device.name &&
        other.index < device.index)
      ++words[1];
  std::memcpy(limit.uuid, words, sizeof words);
  return true;
}

void set_limits(const model::Request& request, wire::DeviceLimit& limit) {
  const model::TurnRules& turns = request.turns;
  limit.memory_bytes = request.memory_bytes.value_or(wire::kNoLimit);
  limit.permille = static_cast<std::uint32_t>(request.share_permille.value_or(0));
  limit.cap = static_cast<std::uint32_t>(turns.cap_permille.value_or(0));
  limit.slice = static_cast<std::uint32_t>(turns.slice_milliseconds.value_or(0));
  limit.flags |= (turns.latency.value_or(false) ? wire::kLatency : 0U) |
                 (turns.best_effort.value_or(false) ? wire::kBestEffort : 0U) |
                 (turns.keeps_turn.value_or(false) ? wire::kKeepsTurn : 0U) |
                 (request.spills ? wire::kSpill : 0U);
}

std::int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Copies the current limits to `device`, because `berth resize` may have changed them.
void take_limits(const wire::DeviceLimit& now, model::GuardedDevice& device) {
  if (now.memory_bytes != wire::kNoLimit) device.memory_limit_bytes = now.memory_bytes;
  if (now.permille != 0) device.share_permille = static_cast<int>(now.permille);
}

}  // namespace

Result<ContainerFiles> files_for_container(const std::string& folder,
                                           const std::string& library_folder,
                                           const std::map<std::string, std::uint64_t>& limits) {
  ContainerFiles files{library_folder + "/libberth-guard-" + checksum(library_bytes()) + ".so",
                       folder + "/limits", folder + "/usage"};
  std::error_code problem;
  for (const std::string& needed : {folder.substr(0, folder.rfind('/')), library_folder})
    if (std::filesystem::create_directories(needed, problem); problem) {
      errno = problem.value();
      return failed(needed);
    }
  bool made = false;
  if (auto usable = system::make_private_folder(folder, made); !usable)
    return std::move(usable).error();
  if (!can_be_loaded(files.library))
    if (auto put = put_file(files.library, library_bytes(), 0555); !put)
      return std::move(put).error();
  wire::Limits held{};
  held.magic = wire::kLimitsMagic;
  held.version = wire::kVersion;
  for (const auto& [uuid, bytes] : limits) {
    // Fail instead of leaving out a limit: without it, the container could use the whole GPU.
    if (held.devices == wire::kMaxDevices)
      return unguarded(uuid, text("the guard limits at most {} GPUs of a container",
                                  std::uint32_t{wire::kMaxDevices}));
    if (!bytes_of(uuid, held.device[held.devices].uuid))
      return unguarded(uuid, text("the guard does not support this form of a uuid"));
    held.device[held.devices++].memory_bytes = bytes;
  }
  // Replace the file only if its content changes: replacing starts a write to the disk, and the
  // kubelet would wait for it.
  const std::string bytes(reinterpret_cast<const char*>(&held), sizeof held);
  if (slurp(files.limits, sizeof held + 1) != bytes)
    if (auto put = put_file(files.limits, bytes, 0444); !put) return std::move(put).error();
  wire::Usage head{};
  head.magic = wire::kUsageMagic;
  head.version = wire::kVersion;
  ::unlink(files.usage.c_str());
  if (auto put = put_hole(files.usage,
                          {reinterpret_cast<const char*>(&head), offsetof(wire::Usage, process)},
                          sizeof(wire::Usage));
      !put)
    return std::move(put).error();
  // The container's user is unknown here, so let every user write. On the node, other users cannot
  // reach the folder.
  if (::chmod(files.usage.c_str(), 0666) != 0) return failed(files.usage);
  return files;
}

bool Setup::is_wanted(const model::Request& request, const model::Placement& placement,
                      const model::Snapshot& snapshot) {
  if (!request.memory_bytes && !request.share_permille) return false;
  return std::any_of(placement.devices.begin(), placement.devices.end(), [&](int index) {
    const model::Device* device = device_at(snapshot, index);
    wire::DeviceLimit limit{};
    return device != nullptr && identify(*device, "", snapshot, limit);
  });
}

Status Setup::leaves_room(const model::Request& request, const model::Placement& placement,
                          const model::Snapshot& snapshot) {
  for (const int index : placement.devices) {
    const model::Device* device = device_at(snapshot, index);
    if (device == nullptr || !has_cuda(*device) || !request.memory_bytes) continue;
    const auto cost = context_cost(device->uuid, snapshot.driver.version);
    if (cost && *request.memory_bytes <= *cost)
      return Error{ErrorCode::kRefused, "E0956",
                   text("CUDA itself needs {} of GPU {} for each process, so a quota of {} would "
                        "leave no memory for the program",
                        show_bytes(*cost), device->index, show_bytes(*request.memory_bytes)),
                   fmt::format("berth run --memory {}MiB -- …", (*cost >> 20U) * 2 + 1)};
  }
  return Done{};
}

Result<Setup> Setup::make(const std::string& job_folder, std::uint64_t job,
                          const model::Request& request, const model::Placement& placement,
                          const model::Snapshot& snapshot, Keep keep) {
  const auto runtime = system::runtime_folder();
  if (!runtime) return runtime.error();
  if (job_folder.empty())
    return Error{ErrorCode::kUnavailable, "E0520", text("the job has no private folder"), ""};
  Setup setup;
  setup.folder_ = job_folder + "/guard";
  auto library = library_file(*runtime, "libberth-guard", library_bytes());
  if (!library) return std::move(library).error();
  auto layer = library_file(*runtime, "libberth-opencl", layer_bytes());
  if (!layer) return std::move(layer).error();
  setup.layer_ = *std::move(layer);
  wire::Limits limits{};
  limits.magic = wire::kLimitsMagic;
  limits.version = wire::kVersion;
  limits.job = job;
  if (::mkdir(setup.folder_.c_str(), 0700) != 0) return failed(setup.folder_);
  const auto give_up = [&](Error error) {
    setup.remove();
    return error;
  };
  for (std::size_t i = 0; i < placement.devices.size(); ++i) {
    const model::Device* device = device_at(snapshot, placement.devices[i]);
    const std::string part = i < placement.partitions.size() ? placement.partitions[i] : "";
    if (device == nullptr || limits.devices == wire::kMaxDevices) continue;
    wire::DeviceLimit& limit = limits.device[limits.devices];
    if (!identify(*device, part, snapshot, limit)) continue;
    if (has_cuda(*device)) setup.library_ = *library;
    set_limits(request, limit);
    if (request.share_permille || request.turns.any())
      if (auto linked = link_turns(*runtime, setup.folder_, turns::file_name(limit).text); !linked)
        return give_up(std::move(linked).error());
    setup.ledgers_.push_back({0, 0, 0, 0, has_cuda(*device) ? device->uuid : ""});
    ++limits.devices;
    model::GuardedDevice held;
    held.device = device->index;
    held.memory_limit_bytes = request.memory_bytes;
    held.share_permille = request.share_permille;
    held.turns = request.turns;
    if (request.spills) held.spilled_peak_bytes = 0;
    setup.devices_.push_back(std::move(held));
  }
  const std::string limits_path = setup.folder_ + "/limits";
  if (keep == Keep::kInFile) {
    const std::string_view bytes(reinterpret_cast<const char*>(&limits), sizeof limits);
    if (auto put = put_file(limits_path, bytes, 0400); !put) return give_up(std::move(put).error());
  } else {
    auto page = keep == Keep::kInMemory ? LimitsPage::make(limits)
                                        : LimitsPage::make_in(limits_path, limits);
    if (!page) return give_up(std::move(page).error());
    setup.page_ = std::make_shared<LimitsPage>(*std::move(page));
    if (keep == Keep::kInMemory && ::symlink(setup.page_->path().c_str(), limits_path.c_str()) != 0)
      return give_up(failed(limits_path));
  }
  setup.driver_ = snapshot.driver.version;
  wire::Usage head{};
  head.magic = wire::kUsageMagic;
  head.version = wire::kVersion;
  if (auto put = put_hole(setup.folder_ + "/usage",
                          {reinterpret_cast<const char*>(&head), offsetof(wire::Usage, process)},
                          sizeof(wire::Usage));
      !put)
    return give_up(std::move(put).error());
  // The container's user is unknown here, so let every user write.
  if (keep == Keep::kForContainer)
    for (const MountedFile& one : setup.files())
      if (one.writable && ::chmod(one.source.c_str(), 0666) != 0)
        return give_up(failed(one.source));
  return setup;
}

std::vector<MountedFile> Setup::files() const {
  std::vector<MountedFile> files{{library_, "libberth-guard.so", false}};
  for (const std::string& name : list_folder(folder_))
    files.push_back({folder_ + "/" + name, name, name != "limits"});
  return files;
}

Setup Setup::made_before(const std::string& job_folder, std::vector<model::GuardedDevice> devices) {
  Setup setup;
  setup.folder_ = job_folder + "/guard";
  setup.devices_ = std::move(devices);
  return setup;
}

void Setup::set_variables(std::map<std::string, std::string>& variables) const {
  const auto put_first = [&](const char* name, const std::string& file) {
    if (file.empty()) return;
    std::string& files = variables[name];
    files = files.empty() ? file : file + ":" + files;
  };
  put_first("LD_PRELOAD", library_);
  put_first("OPENCL_LAYERS", layer_);
  variables["BERTH_GUARD"] = folder_;
}

std::optional<Wish> Setup::wish() const {
  const std::string path = folder_ + "/wanted";
  // Renames the file first, so that another request that arrives in the meantime is not deleted
  // unread.
  const std::string taken = path + ".taken";
  if (!page_ || ::rename(path.c_str(), taken.c_str()) != 0) return std::nullopt;
  const Descriptor file(::open(taken.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  ::unlink(taken.c_str());
  if (!file) return std::nullopt;
  wire::Wanted wanted{};
  if (!read_part(file.get(), &wanted, sizeof wanted) || !wire::valid(wanted)) return std::nullopt;
  Wish wish;
  wish.request = wanted.request;
  if (wanted.memory_bytes > 0) wish.memory_bytes = wanted.memory_bytes;
  if (wanted.permille > 0 && wanted.permille <= 1000)
    wish.share_permille = static_cast<int>(wanted.permille);
  return wish;
}

void Setup::grant(const Wish& wish, std::optional<std::uint64_t> memory_bytes,
                  std::optional<int> permille) const {
  if (!page_ || page_->limits().devices == 0) return;
  const wire::DeviceLimit now = page_->limits().device[0];
  if (wish.memory_bytes)
    page_->set_memory(std::min(*wish.memory_bytes, memory_bytes.value_or(now.memory_bytes)));
  if (wish.share_permille)
    page_->set_share(
        std::min(*wish.share_permille, permille.value_or(static_cast<int>(now.permille))));
  page_->answer(wish.request);
}

void Setup::look() {
  if (!page_) return;
  const auto usage = usage_in(folder_);
  for (std::size_t i = 0; i < ledgers_.size() && usage; ++i) {
    const std::uint64_t events = wire::tally_of(*usage, static_cast<std::uint32_t>(i)).events;
    if (events == ledgers_[i].events && ledgers_[i].since != 0) continue;
    ledgers_[i].events = events;
    ledgers_[i].since = unix_now();
  }
}

void Setup::reconcile(int device, std::uint64_t bytes, int processes, std::int64_t at) {
  look();
  const auto usage = page_ ? usage_in(folder_) : nullptr;
  for (std::size_t i = 0; i < devices_.size() && usage; ++i) {
    if (devices_[i].device != device || at <= ledgers_[i].since || ledgers_[i].uuid.empty())
      continue;
    const wire::Tally sum = wire::tally_of(*usage, static_cast<std::uint32_t>(i));
    if (sum.events != ledgers_[i].events) continue;
    // The driver moves spilled memory to and from the device. If there is any, the driver's number
    // does not show how much memory the guard did not count.
    if (sum.spilled > 0) continue;
    const std::uint64_t counted = sum.used + sum.kept,
                        hidden = bytes > counted ? bytes - counted : 0;
    // The difference is the cost of one context only if the job has one process, the driver lists
    // one process, and the job has hardly any other memory. In other cases, it may be memory that
    // the guard did not count.
    constexpr std::uint64_t kHardlyAny = 64U << 20U;
    const bool is_context = processes == 1 && sum.processes == 1 && counted <= kHardlyAny &&
                            usage->trouble == wire::kNoTrouble;
    if (std::uint64_t& least = ledgers_[i].hidden_least;
        hidden > 0 && is_context && (least == 0 || hidden < least)) {
      least = hidden;
      remember_context_cost(ledgers_[i].uuid, driver_, hidden);
    }
    ledgers_[i].hidden_peak = std::max(ledgers_[i].hidden_peak, hidden);
    page_->set_hidden(i, hidden);
  }
}

model::Guarded Setup::outcome() const {
  model::Guarded out;
  out.set_up = true;
  out.devices = devices_;
  out.opencl_only = !layer_.empty() && library_.empty();
  const auto copy = usage_in(folder_);
  if (!copy) {
    out.not_enforced = text("the counters of the guard cannot be read");
    return out;
  }
  const wire::Usage& usage = *copy;
  out.programs = usage.started;
  if (page_ && !page_->is_at(folder_ + "/limits"))
    out.not_enforced = text("the job changed the file with its limits");
  for (std::size_t d = 0; d < out.devices.size(); ++d) {
    model::GuardedDevice& device = out.devices[d];
    device.memory_peak_bytes = usage.peak[d];
    if (page_ && d < page_->limits().devices) take_limits(page_->limits().device[d], device);
    if (d < ledgers_.size() && ledgers_[d].hidden_peak > 0)
      device.hidden_peak_bytes = ledgers_[d].hidden_peak;
    for (std::uint32_t i = 0; i < wire::places_of(usage); ++i) {
      const wire::Counters& counted = usage.process[i].device[d];
      if (device.spilled_peak_bytes)
        device.spilled_peak_bytes = std::max(*device.spilled_peak_bytes, counted.spilled_peak);
      device.prefetches += counted.prefetches;
      device.prefetched_bytes += counted.prefetched;
      device.prefetch_nanoseconds += counted.prefetching;
      device.allocations += counted.allocations;
      device.frees += counted.frees;
      device.refusals += counted.refusals;
      device.launches += counted.launches;
      device.copies += counted.copies;
      device.fills += counted.fills;
      device.copied_to_bytes += counted.copied_in;
      device.copied_from_bytes += counted.copied_out;
      device.copied_on_bytes += counted.copied_on;
      device.copied_other_bytes += counted.copied_other;
      device.filled_bytes += counted.filled;
      device.device_nanoseconds += counted.busy;
      device.waited_nanoseconds += counted.waited;
    }
  }
  if (usage.unlimited > 0)
    out.not_enforced = text_n("1 process could not read its limits: a namespace may hide them",
                              "{} processes could not read their limits: a namespace may hide them",
                              usage.unlimited, usage.unlimited);
  if (usage.trouble == wire::kNoPlace)
    out.not_enforced = text("more than {} processes of the job used CUDA at once",
                            std::uint32_t{wire::kMaxProcesses});
  if (usage.trouble == wire::kGraphMemory)
    out.not_counted = text("memory that the job's CUDA graphs allocate");
  if (usage.trouble == wire::kSparseMemory)
    out.not_counted = text("memory that sparse arrays keep after its handle is released");
  if (usage.trouble == wire::kOpenClTime)
    out.not_counted = text("the time of the job's OpenCL kernels, because they take no turns");
  if (usage.trouble == wire::kUnknownDevice)
    out.not_counted =
        text("a GPU whose OpenCL driver reports neither its uuid nor its PCI address");
  if (usage.trouble == wire::kUnknownMemory)
    out.not_counted = text(
        "memory that {} may have allocated: Berth does not know this function, so a program may "
        "exceed the quota",
        printable(std::string(usage.unknown_name,
                              ::strnlen(usage.unknown_name, sizeof usage.unknown_name))));
  return out;
}

void Setup::remove() const {
  for (const std::string& name : list_folder(folder_)) ::unlink((folder_ + "/" + name).c_str());
  ::rmdir(folder_.c_str());
}

}  // namespace berth::guard
