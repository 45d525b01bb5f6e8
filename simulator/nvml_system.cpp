// Functions about the driver as a whole, and functions that find devices.
#include <stdio.h>
#include <string.h>

#include "simulator/nvml_core.hpp"

using namespace berth::simulator;

namespace {

struct Named {
  nvmlReturn_t code;
  const char* text;
};
// These texts are Berth's own and may differ from NVIDIA's texts, because programs compare only the
// error codes.
constexpr Named kErrors[] = {
    {NVML_SUCCESS, "Success"},
    {NVML_ERROR_UNINITIALIZED, "Uninitialized"},
    {NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument"},
    {NVML_ERROR_NOT_SUPPORTED, "Not Supported"},
    {NVML_ERROR_NO_PERMISSION, "Insufficient Permissions"},
    {NVML_ERROR_NOT_FOUND, "Not Found"},
    {NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size"},
    {NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"},
    {NVML_ERROR_TIMEOUT, "Timeout"},
    {NVML_ERROR_LIBRARY_NOT_FOUND, "NVML Shared Library Not Found"},
    {NVML_ERROR_FUNCTION_NOT_FOUND, "Function Not Found"},
    {NVML_ERROR_GPU_IS_LOST, "GPU is lost"},
    {NVML_ERROR_LIB_RM_VERSION_MISMATCH, "Driver/library version mismatch"},
    {NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Argument version mismatch"},
    {NVML_ERROR_UNKNOWN, "Unknown Error"},
};

/// The first NVIDIA device for which test(device, number) is true.
template <typename Test>
nvmlReturn_t look_up(Function function, bool arguments_ok, nvmlDevice_t* into, Test test) {
  const Call call(function, arguments_ok && into != nullptr);
  if (!call.ok()) return call.result();
  for (std::uint32_t i = 0; i < view().state().devices; ++i) {
    const wire::Device& device = view().device(i);
    if (device.vendor != wire::kNvidia || !test(device)) continue;
    touch(i);
    const Call found(function, handle_of(i), true,
                     kIdentity);  // if the device is lost, return an error as the driver does
    if (!found.ok()) return found.result();
    *into = handle_of(i);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t by_index(Function function, std::uint32_t index, nvmlDevice_t* into) {
  return look_up(function, index < nvidia_devices(), into,
                 [index](const wire::Device& device) { return device.vendor_index == index; });
}

nvmlReturn_t by_address(Function function, const char* address, nvmlDevice_t* into) {
  unsigned domain = 0, bus = 0, slot = 0;
  const bool read = address != nullptr && sscanf(address, "%x:%x:%x", &domain, &bus, &slot) == 3;
  return look_up(function, read, into, [=](const wire::Device& device) {
    return device.pci_domain == domain && device.pci_bus == bus && device.pci_slot == slot;
  });
}

nvmlReturn_t count_devices(Function function, std::uint32_t* count) {
  const Call call(function, count != nullptr);
  if (!call.ok()) return call.result();
  *count = nvidia_devices();
  return NVML_SUCCESS;
}

/// The simulated process with this pid; nullptr if no running process has it.
const wire::Process* process_of(std::uint32_t pid) {
  for (std::uint32_t i = 0; i < view().state().processes; ++i)
    if (view().process(i).pid == pid && !view().is_gone(i)) return &view().process(i);
  return nullptr;
}

}  // namespace

NVML(nvmlInit)() {
  return initialise(f_nvmlInit, 0);
}
NVML(nvmlInit_v2)() {
  return initialise(f_nvmlInit_v2, 0);
}
NVML(nvmlInitWithFlags)(std::uint32_t flags) {
  return initialise(f_nvmlInitWithFlags, flags);
}
NVML(nvmlShutdown)() {
  return shut_down();
}

extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(nvmlReturn_t code) {
  for (const Named& error : kErrors)
    if (error.code == code) return error.text;
  return "Unknown Error";
}

NVML(nvmlSystemGetDriverVersion)(char* text, std::uint32_t size) {
  ENTER(nvmlSystemGetDriverVersion, text != nullptr);
  return put_text(view().state().driver_version, text, size);
}
NVML(nvmlSystemGetNVMLVersion)(char* text, std::uint32_t size) {
  ENTER(nvmlSystemGetNVMLVersion, text != nullptr);
  return put_text(view().state().nvml_version, text, size);
}
NVML(nvmlSystemGetCudaDriverVersion)(std::int32_t* version) {
  ENTER(nvmlSystemGetCudaDriverVersion, version != nullptr);
  *version = static_cast<std::int32_t>(view().state().cuda_version);
  return NVML_SUCCESS;
}
NVML(nvmlSystemGetCudaDriverVersion_v2)(std::int32_t* version) {
  ENTER(nvmlSystemGetCudaDriverVersion_v2, version != nullptr);
  *version = static_cast<std::int32_t>(view().state().cuda_version);
  return NVML_SUCCESS;
}
NVML(nvmlSystemGetProcessName)(std::uint32_t pid, char* text, std::uint32_t size) {
  ENTER(nvmlSystemGetProcessName, text != nullptr && size > 0);
  const wire::Process* process = process_of(pid);
  if (process == nullptr) return NVML_ERROR_NOT_FOUND;
  const std::size_t length = strcspn(process->command, " ");
  if (length + 1 > size) return NVML_ERROR_INSUFFICIENT_SIZE;
  memcpy(text, process->command, length);
  text[length] = '\0';
  return NVML_SUCCESS;
}
NVML(nvmlUnitGetCount)(std::uint32_t* count) {
  ENTER(nvmlUnitGetCount, count != nullptr);
  *count = 0;
  return NVML_SUCCESS;
}

NVML(nvmlDeviceGetCount)(std::uint32_t* count) {
  return count_devices(f_nvmlDeviceGetCount, count);
}
NVML(nvmlDeviceGetCount_v2)(std::uint32_t* count) {
  return count_devices(f_nvmlDeviceGetCount_v2, count);
}
NVML(nvmlDeviceGetHandleByIndex)(std::uint32_t index, nvmlDevice_t* device) {
  return by_index(f_nvmlDeviceGetHandleByIndex, index, device);
}
NVML(nvmlDeviceGetHandleByIndex_v2)(std::uint32_t index, nvmlDevice_t* device) {
  return by_index(f_nvmlDeviceGetHandleByIndex_v2, index, device);
}
NVML(nvmlDeviceGetHandleByPciBusId)(const char* address, nvmlDevice_t* device) {
  return by_address(f_nvmlDeviceGetHandleByPciBusId, address, device);
}
NVML(nvmlDeviceGetHandleByPciBusId_v2)(const char* address, nvmlDevice_t* device) {
  return by_address(f_nvmlDeviceGetHandleByPciBusId_v2, address, device);
}
NVML(nvmlDeviceGetHandleBySerial)(const char* serial, nvmlDevice_t* device) {
  return look_up(f_nvmlDeviceGetHandleBySerial, serial != nullptr, device,
                 [serial](const wire::Device& d) { return same(d.serial, serial); });
}
NVML(nvmlDeviceGetHandleByUUID)(const char* uuid, nvmlDevice_t* device) {
  if (uuid != nullptr && device != nullptr && strncmp(uuid, "MIG-", 4) == 0) {
    ENTER(nvmlDeviceGetHandleByUUID);
    for (std::uint32_t i = 0; i < view().state().partitions; ++i) {
      const wire::Partition& partition = view().partition(i);
      if (!same(partition.uuid, uuid)) continue;
      *device = handle_of(partition.device, i - view().device(partition.device).partition_first);
      return NVML_SUCCESS;
    }
    for (std::uint32_t i = 0; i < view().state().devices; ++i)
      for (std::uint32_t place = 0; place < wire::kMigInstances; ++place) {
        if (!is_made(i, place) || !same(partition_of(i, kFirstMade + place).uuid, uuid)) continue;
        *device = handle_of(i, kFirstMade + place);
        return NVML_SUCCESS;
      }
    return NVML_ERROR_NOT_FOUND;
  }
  return look_up(f_nvmlDeviceGetHandleByUUID, uuid != nullptr, device,
                 [uuid](const wire::Device& d) { return same(d.uuid, uuid); });
}
