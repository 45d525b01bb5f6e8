#include "inventory/mig_driver.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>

#include "base/text.hpp"
#include "inventory/driver_call.hpp"
#include "vendor/nvml/device.hpp"
#include "vendor/nvml/library.hpp"
#include "wire/codec.hpp"

namespace berth::inventory {
namespace {

using model::MigCard;
using model::MigInstance;
using model::MigPlacement;
using model::MigProfile;
using nvml::Api;

/// Time limits in seconds. Every scan of the machine reads the partitions, so reading must be
/// short. The driver may need several seconds for a change.
constexpr std::chrono::seconds kReadWithin(5), kChangeWithin(20);
constexpr std::uint32_t kMostDevices = 64, kMostPlaces = 64, kMostInstances = 64;

bool is_complete(const Api& api) {
  return api.DeviceGetMigMode != nullptr && api.DeviceGetGpuInstanceProfileInfoV != nullptr &&
         api.DeviceGetGpuInstancePossiblePlacements != nullptr &&
         api.DeviceCreateGpuInstanceWithPlacement != nullptr &&
         api.DeviceGetGpuInstances != nullptr && api.DeviceGetGpuInstanceById != nullptr &&
         api.GpuInstanceGetInfo != nullptr && api.GpuInstanceDestroy != nullptr &&
         api.GpuInstanceGetComputeInstanceProfileInfo != nullptr &&
         api.GpuInstanceCreateComputeInstance != nullptr &&
         api.GpuInstanceGetComputeInstances != nullptr &&
         api.GpuInstanceGetComputeInstanceById != nullptr &&
         api.ComputeInstanceGetInfo != nullptr && api.ComputeInstanceDestroy != nullptr &&
         api.DeviceGetMigDeviceHandleByIndex != nullptr && api.DeviceGetGpuInstanceId != nullptr &&
         api.DeviceGetComputeInstanceId != nullptr && api.DeviceGetMaxMigDeviceCount != nullptr;
}

/// Whether the code means that the GPU or the driver does not have this MIG profile.
bool is_no_profile(nvmlReturn_t code) {
  return code == NVML_ERROR_NOT_SUPPORTED || code == NVML_ERROR_INVALID_ARGUMENT ||
         code == NVML_ERROR_NOT_FOUND;
}

// The following functions run in the child. Those that return a code return the driver's first
// error, or NVML_SUCCESS.

std::string uuid_of(const Api& api, nvmlDevice_t device) {
  std::array<char, 97> text{};
  const auto size = static_cast<std::uint32_t>(text.size() - 1);
  return api.DeviceGetUUID(device, text.data(), size) == NVML_SUCCESS ? text.data() : "";
}

nvmlReturn_t find_card(const Api& api, const std::string& uuid, nvmlDevice_t& found) {
  std::uint32_t count = 0;
  const nvmlReturn_t code = api.DeviceGetCount(&count);
  for (std::uint32_t i = 0; code == NVML_SUCCESS && i < std::min(count, kMostDevices); ++i)
    if (api.DeviceGetHandleByIndex(i, &found) == NVML_SUCCESS && uuid_of(api, found) == uuid)
      return NVML_SUCCESS;
  return code == NVML_SUCCESS ? NVML_ERROR_GPU_NOT_FOUND : code;
}

nvmlReturn_t find_instance(const Api& api, const std::string& card, std::uint32_t id,
                           nvmlDevice_t& device, nvmlGpuInstance_t& instance) {
  if (const nvmlReturn_t code = find_card(api, card, device); code != NVML_SUCCESS) return code;
  return api.DeviceGetGpuInstanceById(device, id, &instance);
}

/// Calls visit(profile id, slices) for each kind of compute instance that the GPU instance offers.
template <typename Visit>
nvmlReturn_t for_compute_profiles(const Api& api, nvmlGpuInstance_t instance, Visit visit) {
  for (std::uint32_t number = 0; number < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; ++number) {
    nvmlComputeInstanceProfileInfo_t info{};
    const nvmlReturn_t code = api.GpuInstanceGetComputeInstanceProfileInfo(
        instance, number, NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, &info);
    if (is_no_profile(code)) continue;
    if (code != NVML_SUCCESS) return code;
    if (const nvmlReturn_t done = visit(info.id, info.sliceCount); done != NVML_SUCCESS)
      return done;
  }
  return NVML_SUCCESS;
}

nvmlReturn_t read_instance(const Api& api, nvmlGpuInstance_t handle, MigCard& card) {
  nvmlGpuInstanceInfo_t info{};
  if (const nvmlReturn_t code = api.GpuInstanceGetInfo(handle, &info); code != NVML_SUCCESS)
    return code;
  MigInstance& one = card.instances.emplace_back();
  one.id = info.id;
  one.profile = info.profileId;
  one.place = {info.placement.start, info.placement.size};
  return for_compute_profiles(api, handle, [&](std::uint32_t profile, std::uint32_t) {
    std::array<nvmlComputeInstance_t, kMostInstances> all{};
    std::uint32_t count = kMostInstances;
    nvmlReturn_t code = api.GpuInstanceGetComputeInstances(handle, profile, all.data(), &count);
    for (std::uint32_t i = 0; code == NVML_SUCCESS && i < std::min(count, kMostInstances); ++i) {
      nvmlComputeInstanceInfo_t compute{};
      code = api.ComputeInstanceGetInfo(all[i], &compute);
      // Several profiles of the same size may list one instance, so add each instance only once.
      if (code == NVML_SUCCESS &&
          std::find(one.computes.begin(), one.computes.end(), compute.id) == one.computes.end())
        one.computes.push_back(compute.id);
    }
    return code;
  });
}

nvmlReturn_t read_profile(const Api& api, nvmlDevice_t device, std::uint32_t number,
                          MigCard& card) {
  nvmlGpuInstanceProfileInfo_v2_t info{};
  info.version = nvml_struct_version<nvmlGpuInstanceProfileInfo_v2_t>(2);
  nvmlReturn_t code = api.DeviceGetGpuInstanceProfileInfoV(device, number, &info);
  if (code != NVML_SUCCESS) return is_no_profile(code) ? NVML_SUCCESS : code;
  info.name[sizeof(info.name) - 1] = 0;
  MigProfile profile{info.id, info.name, info.sliceCount, info.memorySizeMB << 20U, {}};
  std::array<nvmlGpuInstancePlacement_t, kMostPlaces> places{};
  std::uint32_t count = kMostPlaces;
  code = api.DeviceGetGpuInstancePossiblePlacements(device, info.id, places.data(), &count);
  if (code != NVML_SUCCESS) return is_no_profile(code) ? NVML_SUCCESS : code;
  for (std::uint32_t i = 0; i < std::min(count, kMostPlaces); ++i)
    profile.places.push_back({places[i].start, places[i].size});
  card.profiles.push_back(std::move(profile));
  std::array<nvmlGpuInstance_t, kMostInstances> all{};
  count = kMostInstances;
  code = api.DeviceGetGpuInstances(device, info.id, all.data(), &count);
  for (std::uint32_t i = 0; code == NVML_SUCCESS && i < std::min(count, kMostInstances); ++i)
    code = read_instance(api, all[i], card);
  return is_no_profile(code) ? NVML_SUCCESS : code;
}

nvmlReturn_t read_card(const Api& api, nvmlDevice_t device, std::vector<MigCard>& cards) {
  std::uint32_t current = 0, pending = 0;
  const nvmlReturn_t mode = api.DeviceGetMigMode(device, &current, &pending);
  if (mode != NVML_SUCCESS) return is_no_profile(mode) ? NVML_SUCCESS : mode;
  if (current != NVML_DEVICE_MIG_ENABLE) return NVML_SUCCESS;
  MigCard card;
  card.uuid = uuid_of(api, device);
  for (std::uint32_t number = 0; number < NVML_GPU_INSTANCE_PROFILE_COUNT; ++number)
    if (const nvmlReturn_t code = read_profile(api, device, number, card); code != NVML_SUCCESS)
      return code;
  cards.push_back(std::move(card));
  return NVML_SUCCESS;
}

/// Finds the partition (MIG device) that consists of this GPU instance and its compute instance.
nvmlReturn_t find_partition(const Api& api, nvmlDevice_t device, std::uint32_t instance,
                            std::uint32_t compute, model::Partition& found) {
  std::uint32_t count = 0;
  if (const nvmlReturn_t code = api.DeviceGetMaxMigDeviceCount(device, &count);
      code != NVML_SUCCESS)
    return code;
  for (std::uint32_t i = 0; i < std::min(count, kMostInstances); ++i) {
    nvmlDevice_t handle = nullptr;
    std::uint32_t of = 0, in = 0;
    if (api.DeviceGetMigDeviceHandleByIndex(device, i, &handle) != NVML_SUCCESS ||
        api.DeviceGetGpuInstanceId(handle, &of) != NVML_SUCCESS || of != instance ||
        api.DeviceGetComputeInstanceId(handle, &in) != NVML_SUCCESS || in != compute)
      continue;
    nvml::Look look{api};
    look.device = device;
    found = nvml::partition_of(look, handle, i);
    return found.uuid.empty() ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t make_compute(const Api& api, const std::string& card, std::uint32_t id,
                          model::Partition& made) {
  nvmlDevice_t device = nullptr;
  nvmlGpuInstance_t instance = nullptr;
  nvmlReturn_t code = find_instance(api, card, id, device, instance);
  if (code != NVML_SUCCESS) return code;
  std::uint32_t profile = 0, slices = 0;
  code = for_compute_profiles(api, instance, [&](std::uint32_t one, std::uint32_t has) {
    if (has > slices) profile = one;
    slices = std::max(slices, has);
    return NVML_SUCCESS;
  });
  if (code != NVML_SUCCESS) return code;
  if (slices == 0) return NVML_ERROR_NOT_SUPPORTED;
  nvmlComputeInstance_t compute = nullptr;
  code = api.GpuInstanceCreateComputeInstance(instance, profile, &compute);
  nvmlComputeInstanceInfo_t info{};
  if (code == NVML_SUCCESS) code = api.ComputeInstanceGetInfo(compute, &info);
  return code == NVML_SUCCESS ? find_partition(api, device, id, info.id, made) : code;
}

// The following functions encode and decode the child's answer.

void put(wire::Writer& out, const MigPlacement& place) {
  out.put(place.start);
  out.put(place.size);
}

MigPlacement get_place(wire::Reader& in) {
  const auto start = in.get<std::uint32_t>();
  return {start, in.get<std::uint32_t>()};
}

template <typename T>
void put_count(wire::Writer& out, const std::vector<T>& list) {
  out.put(static_cast<std::uint32_t>(list.size()));
}

/// Calls get() once for each element. Stops at the end of the bytes if the stored count is too
/// large.
template <typename Get>
void get_list(wire::Reader& in, Get get) {
  const auto count = in.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && !in.failed(); ++i) get();
}

void put(wire::Writer& out, const MigCard& card) {
  out.put(std::string_view(card.uuid));
  put_count(out, card.profiles);
  for (const MigProfile& one : card.profiles) {
    out.put(one.id);
    out.put(std::string_view(one.name));
    out.put(one.slices);
    out.put(one.memory_bytes);
    put_count(out, one.places);
    for (const MigPlacement& place : one.places) put(out, place);
  }
  put_count(out, card.instances);
  for (const MigInstance& one : card.instances) {
    out.put(one.id);
    out.put(one.profile);
    put(out, one.place);
    put_count(out, one.computes);
    for (const std::uint32_t id : one.computes) out.put(id);
  }
}

MigCard get_card(wire::Reader& in) {
  MigCard card;
  card.uuid = in.text();
  get_list(in, [&] {
    MigProfile& one = card.profiles.emplace_back();
    one.id = in.get<std::uint32_t>();
    one.name = in.text();
    one.slices = in.get<std::uint32_t>();
    one.memory_bytes = in.get<std::uint64_t>();
    get_list(in, [&] { one.places.push_back(get_place(in)); });
  });
  get_list(in, [&] {
    MigInstance& one = card.instances.emplace_back();
    one.id = in.get<std::uint32_t>();
    one.profile = in.get<std::uint32_t>();
    one.place = get_place(in);
    get_list(in, [&] { one.computes.push_back(in.get<std::uint32_t>()); });
  });
  return card;
}

std::string words_of(nvmlReturn_t code) {
  switch (code) {
    case NVML_ERROR_LIBRARY_NOT_FOUND:
      return text("NVIDIA's library cannot be loaded");
    case NVML_ERROR_FUNCTION_NOT_FOUND:
      return text("the driver is older than {}", kMigProfileDriver);
    case NVML_ERROR_NO_PERMISSION:
      return text("only root may do that");
    case NVML_ERROR_NOT_SUPPORTED:
      return text("the driver does not support that on this GPU");
    case NVML_ERROR_IN_USE:
      return text("a process uses it");
    case NVML_ERROR_INSUFFICIENT_RESOURCES:
      return text("the GPU has no room for the partition");
    case NVML_ERROR_GPU_NOT_FOUND:
    case NVML_ERROR_NOT_FOUND:
      return text("the GPU or the partition does not exist any more");
    default:
      return text("the driver's error {}", static_cast<int>(code));
  }
}

Error not_made(const std::string& why) {
  return {ErrorCode::kUnavailable, "E1064", text("no MIG partition can be made: {}", why),
          "nvidia-smi mig -lgip\nnvidia-smi mig -lgi"};
}

Error not_removed(const std::string& why) {
  return {ErrorCode::kUnavailable, "E1065", text("a MIG partition cannot be removed: {}", why),
          "nvidia-smi\nnvidia-smi mig -lgi"};
}

/// A function that the child runs. It writes the answer to `out` and returns the driver's code.
using Work = std::function<nvmlReturn_t(const Api& api, wire::Writer& out)>;
Result<std::string> ask(const std::string& library, std::chrono::milliseconds within,
                        Error (*failed)(const std::string&), const Work& work) {
  const auto bytes = call_in_child(within, [&] {
    wire::Writer out;
    nvmlReturn_t code = NVML_ERROR_LIBRARY_NOT_FOUND;
    if (const auto api = nvml::open(library)) {
      code = is_complete(*api) ? api->Init() : NVML_ERROR_FUNCTION_NOT_FOUND;
      if (code == NVML_SUCCESS) code = work(*api, out);
    }
    wire::Writer whole;
    whole.put(code);
    return whole.bytes() + out.bytes();
  });
  if (!bytes) return failed(text("the driver gave no answer"));
  wire::Reader in(*bytes);
  const auto code = in.get<nvmlReturn_t>();
  if (in.failed()) return failed(text("the driver gave no answer"));
  if (code != NVML_SUCCESS) return failed(words_of(code));
  return bytes->substr(sizeof(nvmlReturn_t));
}

}  // namespace

Result<std::vector<MigCard>> read_mig_cards(const std::string& library) {
  const auto bytes = ask(library, kReadWithin, not_made, [](const Api& api, wire::Writer& out) {
    std::vector<MigCard> cards;
    std::uint32_t count = 0;
    nvmlReturn_t code = api.DeviceGetCount(&count);
    for (std::uint32_t i = 0; code == NVML_SUCCESS && i < std::min(count, kMostDevices); ++i) {
      nvmlDevice_t device = nullptr;
      // Skip a GPU that is lost, so that the other GPUs are still listed.
      if (api.DeviceGetHandleByIndex(i, &device) == NVML_SUCCESS)
        code = read_card(api, device, cards);
      if (code == NVML_ERROR_GPU_IS_LOST) code = NVML_SUCCESS;
    }
    put_count(out, cards);
    for (const MigCard& card : cards) put(out, card);
    return code;
  });
  if (!bytes) return bytes.error();
  std::vector<MigCard> cards;
  wire::Reader in(*bytes);
  get_list(in, [&] { cards.push_back(get_card(in)); });
  if (in.failed()) return not_made(text("the driver gave no answer"));
  return cards;
}

Result<std::uint32_t> make_gpu_instance(const std::string& library, const std::string& card,
                                        std::uint32_t profile, const MigPlacement& place) {
  const auto bytes = ask(library, kChangeWithin, not_made, [&](const Api& api, wire::Writer& out) {
    nvmlDevice_t device = nullptr;
    nvmlReturn_t code = find_card(api, card, device);
    if (code != NVML_SUCCESS) return code;
    const nvmlGpuInstancePlacement_t wanted{place.start, place.size};
    nvmlGpuInstance_t instance = nullptr;
    code = api.DeviceCreateGpuInstanceWithPlacement(device, profile, &wanted, &instance);
    nvmlGpuInstanceInfo_t info{};
    if (code == NVML_SUCCESS) code = api.GpuInstanceGetInfo(instance, &info);
    out.put(info.id);
    return code;
  });
  if (!bytes) return bytes.error();
  wire::Reader in(*bytes);
  const auto id = in.get<std::uint32_t>();
  if (in.failed()) return not_made(text("the driver gave no answer"));
  return id;
}

Result<model::Partition> make_compute_instance(const std::string& library, const std::string& card,
                                               std::uint32_t instance) {
  const auto bytes = ask(library, kChangeWithin, not_made, [&](const Api& api, wire::Writer& out) {
    model::Partition made;
    const nvmlReturn_t code = make_compute(api, card, instance, made);
    out.put(made.index);
    out.put(std::string_view(made.name));
    out.put(std::string_view(made.uuid));
    out.put(made.compute_instance.value_or(0));
    out.put(made.memory_total_bytes.value_or(0));
    out.put(made.memory_used_bytes.value_or(0));
    return code;
  });
  if (!bytes) return bytes.error();
  wire::Reader in(*bytes);
  model::Partition made;
  made.index = in.get<std::uint32_t>();
  made.name = in.text();
  made.uuid = in.text();
  made.gpu_instance = instance;
  made.compute_instance = in.get<std::uint32_t>();
  made.memory_total_bytes = in.get<std::uint64_t>();
  made.memory_used_bytes = in.get<std::uint64_t>();
  made.utilization_percent = model::Absence::kNotSupported;
  if (in.failed() || made.uuid.empty()) return not_made(text("the driver gave no answer"));
  return made;
}

Status remove_compute_instance(const std::string& library, const std::string& card,
                               std::uint32_t instance, std::uint32_t compute) {
  const auto done = ask(library, kChangeWithin, not_removed, [&](const Api& api, wire::Writer&) {
    nvmlDevice_t device = nullptr;
    nvmlGpuInstance_t of = nullptr;
    nvmlReturn_t code = find_instance(api, card, instance, device, of);
    nvmlComputeInstance_t handle = nullptr;
    if (code == NVML_SUCCESS) code = api.GpuInstanceGetComputeInstanceById(of, compute, &handle);
    return code == NVML_SUCCESS ? api.ComputeInstanceDestroy(handle) : code;
  });
  return done ? Status(Done{}) : Status(done.error());
}

Status remove_gpu_instance(const std::string& library, const std::string& card,
                           std::uint32_t instance) {
  const auto done = ask(library, kChangeWithin, not_removed, [&](const Api& api, wire::Writer&) {
    nvmlDevice_t device = nullptr;
    nvmlGpuInstance_t handle = nullptr;
    const nvmlReturn_t code = find_instance(api, card, instance, device, handle);
    return code == NVML_SUCCESS ? api.GpuInstanceDestroy(handle) : code;
  });
  return done ? Status(Done{}) : Status(done.error());
}

}  // namespace berth::inventory
