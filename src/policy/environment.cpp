// The variables that select devices for each vendor's runtime, and what applies if several are set:
// - CUDA: CUDA_VISIBLE_DEVICES holds indices (ordered as CUDA_DEVICE_ORDER says) or uuids; "-1"
//   selects none.
// - ROCr: ROCR_VISIBLE_DEVICES holds indices or uuids ("GPU-" and 16 hexadecimal digits) of the
//   machine's AMD GPUs; "-1" selects none. (ROCR-Runtime, amd_filter_device.cpp; ROCm
//   documentation, GPU isolation techniques.)
// - HIP: HIP_VISIBLE_DEVICES and GPU_DEVICE_ORDINAL count the devices that ROCr selected. If HIP's
//   variable is unset, HIP reads CUDA_VISIBLE_DEVICES: hiding NVIDIA GPUs with "-1" would then hide
//   AMD's too.
// - SYCL: ZE_AFFINITY_MASK selects Intel GPUs, but no value selects none (Level Zero specification,
//   affinity mask). ONEAPI_DEVICE_SELECTOR can select none for SYCL programs, including PyTorch.
// - TPU: TPU_VISIBLE_CHIPS, with the bounds of the part; JAX_PLATFORMS keeps JAX off the TPU, and
//   PJRT_DEVICE keeps PyTorch/XLA off it.
// - OpenCL has no such variable.
#include "policy/environment.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "policy/visible.hpp"

namespace berth::policy {
namespace {

using model::Device;
using model::Health;
using model::Setting;
using model::Vendor;
using User = std::map<std::string, std::string>;

/// A device that the job gets, and its number among the devices of its vendor.
struct Chosen {
  const Device* device = nullptr;
  std::size_t number = 0;
  std::string partition;
};

class Writer {
 public:
  Writer(const model::Placement& placement, const model::Snapshot& snapshot, const User& user,
         const EnvironmentOptions& options)
      : placement_(placement), snapshot_(snapshot), user_(user), options_(options) {}

  model::Environment write() {
    environment_.cpus = placement_.cpus;
    environment_.threads = placement_.threads;
    nvidia();
    amd();
    intel();
    tpu();
    if (on_cpu()) prefer("JAX_PLATFORMS", "cpu", text("JAX uses only the CPU"));
    note_opencl();
    collectives();
    threads();
    waiting();
    if (options_.quiet)
      prefer("TF_CPP_MIN_LOG_LEVEL", "1", text("TensorFlow prints no informational messages"));
    return std::move(environment_);
  }

 private:
  [[nodiscard]] bool on_cpu() const { return placement_.devices.empty(); }

  [[nodiscard]] const std::string* of_user(const std::string& name) const {
    const auto found = user_.find(name);
    return found == user_.end() ? nullptr : &found->second;
  }

  void add(Setting::Action action, std::string name, std::string value, std::string why) {
    environment_.settings.push_back({action, std::move(name), std::move(value), std::move(why)});
  }

  /// Sets a variable that the placement needs. The user's value is replaced; it has already limited
  /// the choice of devices.
  void demand(const std::string& name, const std::string& value, std::string why) {
    const std::string* had = of_user(name);
    const bool same = had != nullptr && *had == value;
    add(same ? Setting::Action::kKeep : Setting::Action::kSet, name, value, std::move(why));
  }

  /// Sets a variable to a better default. If the user has set it, the user's value is kept, unless
  /// --override is given.
  void prefer(const std::string& name, const std::string& value, std::string why) {
    const std::string* had = of_user(name);
    if (had != nullptr && !had->empty() && !options_.override_user && *had != value)
      return add(Setting::Action::kKeep, name, *had, text("set before: kept"));
    demand(name, value, std::move(why));
  }

  void remove(const std::string& name, std::string why) {
    if (of_user(name) != nullptr) add(Setting::Action::kUnset, name, "", std::move(why));
  }

  [[nodiscard]] std::vector<Chosen> chosen_of(const std::vector<const Device*>& devices) const {
    std::vector<Chosen> out;
    for (std::size_t i = 0; i < placement_.devices.size(); ++i)
      for (std::size_t number = 0; number < devices.size(); ++number)
        if (devices[number]->index == placement_.devices[i])
          out.push_back({devices[number], number,
                         i < placement_.partitions.size() ? placement_.partitions[i] : ""});
    return out;
  }

  void nvidia();
  void amd();
  void intel();
  void tpu();
  void note_opencl();
  void collectives();
  void threads();
  void waiting();

  const model::Placement& placement_;
  const model::Snapshot& snapshot_;
  const User& user_;
  const EnvironmentOptions& options_;
  model::Environment environment_;
};

std::string numbers(const std::vector<Chosen>& chosen) {
  std::string out;
  for (const Chosen& one : chosen) out += (out.empty() ? "" : ",") + std::to_string(one.number);
  return out;
}

/// Returns "0,1,2" for 3. The numbers select all devices that a variable of a lower layer has left
/// visible.
std::string count_up(std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += (i == 0 ? "" : ",") + std::to_string(i);
  return out;
}

/// Returns the uuids, separated by commas; "" if one of the devices has no uuid.
std::string uuids(const std::vector<Chosen>& chosen) {
  std::string out;
  for (const Chosen& one : chosen) {
    const std::string& uuid = one.partition.empty() ? one.device->uuid : one.partition;
    if (uuid.empty()) return {};
    out += (out.empty() ? "" : ",") + uuid;
  }
  return out;
}

/// Whether CUDA's indices may differ from Berth's: CUDA skips a lost GPU, and lists a partition in
/// place of a GPU with MIG enabled.
bool indices_shift(const std::vector<const Device*>& devices) {
  return std::any_of(devices.begin(), devices.end(), [](const Device* d) {
    return d->health == Health::kLost || d->health == Health::kNoAnswer ||
           d->health == Health::kDegraded || d->mig_enabled.value_or(false);
  });
}

void Writer::nvidia() {
  const auto devices = devices_of(snapshot_, Vendor::kNvidia);
  const auto chosen = chosen_of(devices);
  if (chosen.empty()) {
    if (on_cpu() || !devices.empty())
      return demand("CUDA_VISIBLE_DEVICES", "-1", text("hides NVIDIA's GPUs"));
    if (devices_of(snapshot_, Vendor::kAmd).empty()) return;
    return remove("CUDA_VISIBLE_DEVICES",
                  text("Berth has already applied this list; HIP would apply it again"));
  }
  const std::string* order = of_user("CUDA_DEVICE_ORDER");
  const bool own_order =
      order != nullptr && *order != "PCI_BUS_ID" && !order->empty() && !options_.override_user;
  const std::string by_uuid = uuids(chosen);
  if ((own_order || indices_shift(devices)) && !by_uuid.empty()) {
    if (own_order)
      add(Setting::Action::kKeep, "CUDA_DEVICE_ORDER", *order, text("set before: kept"));
    return demand("CUDA_VISIBLE_DEVICES", by_uuid,
                  text("set by uuid, because an index could mean another GPU here"));
  }
  demand("CUDA_DEVICE_ORDER", "PCI_BUS_ID",
         text("an index means the same GPU to CUDA and to nvidia-smi"));
  demand("CUDA_VISIBLE_DEVICES", numbers(chosen), text("the GPUs chosen for this job"));
  if (indices_shift(devices))
    environment_.notes.push_back(
        text("a GPU here has no uuid, and indices may shift because another GPU has a fault"));
}

/// Whether a uuid has the form that ROCr accepts: "GPU-" and 16 hexadecimal digits.
bool rocr_uuid(const std::string& uuid) {
  return uuid.size() == 20 && uuid.rfind("GPU-", 0) == 0 &&
         uuid.find_first_not_of("0123456789abcdefABCDEF", 4) == std::string::npos;
}

void Writer::amd() {
  const auto devices = devices_of(snapshot_, Vendor::kAmd);
  const auto chosen = chosen_of(devices);
  if (chosen.empty()) {
    if (on_cpu()) demand("HIP_VISIBLE_DEVICES", "-1", text("hides AMD's GPUs from HIP"));
    if (on_cpu() || !devices.empty())
      demand("ROCR_VISIBLE_DEVICES", "-1", text("hides AMD's GPUs"));
    return;
  }
  const bool named = std::all_of(chosen.begin(), chosen.end(),
                                 [](const Chosen& one) { return rocr_uuid(one.device->uuid); });
  demand("ROCR_VISIBLE_DEVICES", named ? uuids(chosen) : numbers(chosen),
         text("the GPUs chosen for this job"));
  const std::string left = count_up(chosen.size());
  const bool cuda_is_set = !devices_of(snapshot_, Vendor::kNvidia).empty();
  if (cuda_is_set || of_user("HIP_VISIBLE_DEVICES") != nullptr)
    demand("HIP_VISIBLE_DEVICES", left,
           text("HIP counts only the GPUs that ROCR_VISIBLE_DEVICES allows"));
  if (of_user("GPU_DEVICE_ORDINAL") != nullptr)
    demand("GPU_DEVICE_ORDINAL", left,
           text("HIP counts only the GPUs that ROCR_VISIBLE_DEVICES allows"));
}

void Writer::intel() {
  const auto devices = devices_of(snapshot_, Vendor::kIntel);
  const auto chosen = chosen_of(devices);
  if (!chosen.empty()) {
    demand("ZE_AFFINITY_MASK", numbers(chosen), text("the GPUs chosen for this job"));
    if (devices.size() > 1)
      demand("ZE_ENABLE_PCI_ID_DEVICE_ORDER", "1",
             text("a number means the same GPU in every run"));
    return;
  }
  if (devices.empty()) return;
  if (!on_cpu()) {
    environment_.notes.push_back(
        text("Intel's GPU is not hidden: Level Zero has no variable for that"));
    return;
  }
  demand("ONEAPI_DEVICE_SELECTOR", "*:cpu", text("SYCL programs see only the CPU"));
  environment_.notes.push_back(
      text("programs that call Level Zero directly can still see Intel's GPU: Level Zero has no "
           "variable that hides all GPUs"));
}

void Writer::tpu() {
  const auto devices = devices_of(snapshot_, Vendor::kGoogle);
  const auto chosen = chosen_of(devices);
  if (chosen.empty()) {
    if (on_cpu() && !devices.empty())
      prefer("PJRT_DEVICE", "CPU", text("PyTorch/XLA uses only the CPU"));
    return;
  }
  demand("TPU_VISIBLE_CHIPS", numbers(chosen), text("the chips chosen for this job"));
  // A job with only some of a host's chips must also know how they are connected. These are the
  // possible shapes for each number of chips (JAX documentation, TPU pods).
  static constexpr std::array<std::pair<std::size_t, const char*>, 3> kShapes{
      {{1, "1,1,1"}, {2, "1,2,1"}, {4, "2,2,1"}}};
  for (const auto& [count, shape] : kShapes)
    if (chosen.size() == count && chosen.size() < devices.size()) {
      demand("TPU_CHIPS_PER_PROCESS_BOUNDS", shape, text("the topology of the chosen chips"));
      demand("TPU_PROCESS_BOUNDS", "1,1,1", text("one process uses all chosen chips"));
    }
  prefer("JAX_PLATFORMS", "tpu,cpu",
         text("JAX reports it if the TPU fails, instead of silently using the CPU"));
  prefer("PJRT_DEVICE", "TPU", text("PyTorch/XLA uses the TPU"));
}

void Writer::note_opencl() {
  for (const Device& device : snapshot_.devices) {
    const bool taken = std::find(placement_.devices.begin(), placement_.devices.end(),
                                 device.index) != placement_.devices.end();
    if (device.kind != model::DeviceKind::kGpu || taken) continue;
    environment_.notes.push_back(
        text("OpenCL and Vulkan programs can still see every GPU: no variable hides GPUs from "
             "these programs"));
    return;
  }
}

/// Whether a driver version is older than another. Versions are numbers separated by dots.
bool is_older(std::string_view version, std::string_view other) {
  const auto parts = split(version, '.'), others = split(other, '.');
  for (std::size_t i = 0; i < std::min(parts.size(), others.size()); ++i) {
    const auto number = to_number(parts[i]), limit = to_number(others[i]);
    if (!number || !limit) return false;
    if (*number != *limit) return *number < *limit;
  }
  return parts.size() < others.size();
}

/// Sets variables of NCCL. Drivers before 525.105.17 offer direct transfers between RTX 4090, which
/// do not work (github.com/NVIDIA/nccl-tests/issues/117; rule RT16 of `berth doctor`).
void Writer::collectives() {
  constexpr std::string_view kFixed = "525.105.17";
  const std::string& driver = snapshot_.driver.version;
  const auto chosen = chosen_of(devices_of(snapshot_, Vendor::kNvidia));
  const auto cards = std::count_if(chosen.begin(), chosen.end(), [](const Chosen& one) {
    return one.device->name.find("RTX 4090") != std::string::npos;
  });
  if (cards < 2 || driver.empty() || !is_older(driver, kFixed)) return;
  prefer(
      "NCCL_P2P_DISABLE", "1",
      text(
          "driver {} offers peer-to-peer transfers between RTX 4090 GPUs, but NCCL hangs with them",
          driver));
}

/// Returns the number of threads for the first nesting level in a value of OMP_NUM_THREADS: 4 for
/// "4,2".
std::optional<int> threads_in(const std::string& value) {
  const auto number = parse_integer(value.substr(0, value.find(',')), 1, 8192);
  if (!number) return std::nullopt;
  return static_cast<int>(*number);
}

void Writer::threads() {
  const std::string* omp = of_user("OMP_NUM_THREADS");
  const auto own = omp == nullptr ? std::nullopt : threads_in(*omp);
  if (own && !options_.override_user) {
    // The user has set OMP_NUM_THREADS. Other libraries also use its value if their own variable is
    // not set. So do not set their variables.
    environment_.threads = *own;
    return add(Setting::Action::kKeep, "OMP_NUM_THREADS", *omp, text("set before: kept"));
  }
  const std::string count = std::to_string(placement_.threads);
  const std::string why = text("one thread for each usable core");
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"})
    prefer(name, count, why);
  // NumExpr cannot be imported if its number of threads is above NUMEXPR_MAX_THREADS, which is 64
  // by default (numexpr, utils.py).
  const std::string* most = of_user("NUMEXPR_MAX_THREADS");
  const int limit = most == nullptr ? 64 : threads_in(*most).value_or(64);
  prefer("NUMEXPR_NUM_THREADS", std::to_string(std::min(placement_.threads, limit)), why);
}

/// Limits busy waiting. With GCC's OpenMP, a thread that has finished a parallel region spins
/// 300,000 times, which takes some milliseconds. On a shared machine, it may block the core that
/// another thread of the program needs (decision 18).
void Writer::waiting() {
  constexpr const char* kSpins = "10000";
  if (environment_.threads < 2) return;
  // If the user set OMP_WAIT_POLICY, do not set GOMP_SPINCOUNT, which would override it.
  if (const std::string* policy = of_user("OMP_WAIT_POLICY"); policy != nullptr && !policy->empty())
    return add(Setting::Action::kKeep, "OMP_WAIT_POLICY", *policy, text("set before: kept"));
  prefer("GOMP_SPINCOUNT", kSpins, text("waiting OpenMP threads soon release their cores"));
}

std::vector<std::pair<std::string, std::string>> set_by_berth(const User& variables) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto found = variables.find(kSetByBerth);
  if (found == variables.end()) return out;
  for (const std::string_view one : split(found->second, ';'))
    if (const auto at = one.find('='); at != std::string_view::npos && at > 0)
      out.emplace_back(one.substr(0, at), one.substr(at + 1));
  return out;
}

}  // namespace

model::Environment environment_for(const model::Placement& placement,
                                   const model::Snapshot& snapshot,
                                   const std::map<std::string, std::string>& user,
                                   const EnvironmentOptions& options) {
  return Writer(placement, snapshot, user, options).write();
}

// The following functions write and read BERTH_SET="CUDA_VISIBLE_DEVICES=0;OMP_NUM_THREADS=2".
// Values are separated by semicolons. No value that Berth sets contains a semicolon.

void set_variables(const model::Environment& environment,
                   std::map<std::string, std::string>& variables) {
  std::map<std::string, std::string> ours;
  for (const auto& [name, value] : set_by_berth(variables)) ours[name] = value;
  for (const Setting& one : environment.settings) {
    if (one.action == Setting::Action::kSet) ours[one.name] = variables[one.name] = one.value;
    if (one.action == Setting::Action::kUnset) variables.erase(one.name);
  }
  std::string all;
  for (const auto& [name, value] : ours) all += (all.empty() ? "" : ";") + name + "=" + value;
  if (!all.empty()) variables[kSetByBerth] = all;
}

std::map<std::string, std::string> without_berths(std::map<std::string, std::string> variables) {
  for (const auto& [name, value] : set_by_berth(variables))
    if (const auto found = variables.find(name); found != variables.end() && found->second == value)
      variables.erase(found);
  variables.erase(kSetByBerth);
  return variables;
}

}  // namespace berth::policy
