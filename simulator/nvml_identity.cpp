// Identity of a device: names, addresses, constant properties, MIG.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulator/nvml_core.hpp"
#include "simulator/nvml_structs.hpp"

using namespace berth::simulator;

namespace {

void put_addresses(const wire::Device& d, char (&legacy)[16], char (&full)[32]) {
  snprintf(legacy, sizeof(legacy), "%04X:%02X:%02X.0", d.pci_domain & 0xffff, d.pci_bus & 0xff,
           d.pci_slot & 0xff);
  snprintf(full, sizeof(full), "%08X:%02X:%02X.0", d.pci_domain, d.pci_bus & 0xff,
           d.pci_slot & 0xff);
}

nvmlReturn_t give(std::uint32_t value, std::uint32_t* into) {
  *into = value;
  return NVML_SUCCESS;
}

/// Writes a property of the device to `into`. Returns NOT_SUPPORTED if the value is 0.
nvmlReturn_t give_if_known(std::uint32_t value, std::uint32_t* into) {
  if (value == 0) return NVML_ERROR_NOT_SUPPORTED;
  return give(value, into);
}

nvmlReturn_t fill_attributes(const Call& call, nvmlDeviceAttributes_t* out, std::size_t bytes) {
  if (!call.on_partition()) return NVML_ERROR_NOT_SUPPORTED;
  const wire::Partition partition = call.partition_info();
  nvmlDeviceAttributes_t filled = {};
  filled.multiprocessorCount = partition.multiprocessors;
  filled.sharedCopyEngineCount = partition.slices;
  filled.gpuInstanceSliceCount = partition.slices;
  filled.computeInstanceSliceCount = partition.compute_slices;
  filled.memorySizeMB = partition.memory_total >> 20U;
  memcpy(out, &filled, bytes);
  return NVML_SUCCESS;
}

/// Sets the bits of the CPUs in a list of the kernel's form ("0-3,8"). CPUs that do not fit in
/// `words` are ignored.
void set_processors(const char* list, std::uint32_t words, unsigned long* set) {
  constexpr unsigned long kBits = 8 * sizeof(unsigned long);
  memset(set, 0, words * sizeof(unsigned long));
  for (const char* at = list; *at != '\0';) {
    char* end = nullptr;
    const unsigned long first = strtoul(at, &end, 10);
    if (end == at) return;
    unsigned long last = first;
    if (*end == '-') last = strtoul(end + 1, &end, 10);
    for (unsigned long cpu = first; cpu <= last && cpu / kBits < words; ++cpu)
      set[cpu / kBits] |= 1UL << cpu % kBits;
    at = *end == ',' ? end + 1 : end;
    if (*at != '\0' && end == at) return;
  }
}

}  // namespace

NVML(nvmlDeviceGetIndex)(nvmlDevice_t device, std::uint32_t* index) {
  ENTER(nvmlDeviceGetIndex, device, index != nullptr, kIdentityOfAny);
  const std::uint32_t partition =
      call.partition() % kFirstMade +
      (call.partition() >= kFirstMade ? call.device().partition_count : 0);
  return give(call.on_partition() ? partition : call.device().vendor_index, index);
}
NVML(nvmlDeviceGetName)(nvmlDevice_t device, char* text, std::uint32_t size) {
  ENTER(nvmlDeviceGetName, device, text != nullptr, kIdentityOfAny);
  if (!call.on_partition()) return put_text(call.device().name, text, size);
  char name[160];
  snprintf(name, sizeof(name), "%s MIG %s", call.device().name, call.partition_info().profile);
  return put_text(name, text, size);
}
NVML(nvmlDeviceGetUUID)(nvmlDevice_t device, char* text, std::uint32_t size) {
  ENTER(nvmlDeviceGetUUID, device, text != nullptr, kIdentityOfAny);
  return put_text(call.on_partition() ? call.partition_info().uuid : call.device().uuid, text,
                  size);
}
NVML(nvmlDeviceGetSerial)(nvmlDevice_t device, char* text, std::uint32_t size) {
  ENTER(nvmlDeviceGetSerial, device, text != nullptr, Ask{wire::k_serial, true, false});
  return put_text(call.device().serial, text, size);
}
NVML(nvmlDeviceGetVbiosVersion)(nvmlDevice_t device, char* text, std::uint32_t size) {
  ENTER(nvmlDeviceGetVbiosVersion, device, text != nullptr, kIdentity);
  return put_text(call.device().vbios, text, size);
}
NVML(nvmlDeviceGetBoardPartNumber)(nvmlDevice_t device, char* text, std::uint32_t size) {
  ENTER(nvmlDeviceGetBoardPartNumber, device, text != nullptr, Ask{wire::k_serial, true, false});
  return put_text(call.device().part_number, text, size);
}
NVML(nvmlDeviceGetMinorNumber)(nvmlDevice_t device, std::uint32_t* minor) {
  ENTER(nvmlDeviceGetMinorNumber, device, minor != nullptr, kIdentity);
  return give(call.device().minor, minor);
}
NVML(nvmlDeviceGetBoardId)(nvmlDevice_t device, std::uint32_t* board) {
  ENTER(nvmlDeviceGetBoardId, device, board != nullptr, kIdentity);
  return give(call.device().pci_bus << 8U, board);
}
NVML(nvmlDeviceGetMultiGpuBoard)(nvmlDevice_t device, std::uint32_t* several) {
  ENTER(nvmlDeviceGetMultiGpuBoard, device, several != nullptr, kIdentity);
  return give(0, several);
}
NVML(nvmlDeviceGetBrand)(nvmlDevice_t device, nvmlBrandType_t* brand) {
  ENTER(nvmlDeviceGetBrand, device, brand != nullptr, kIdentity);
  *brand = static_cast<nvmlBrandType_t>(call.device().brand);
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetArchitecture)(nvmlDevice_t device, nvmlDeviceArchitecture_t* architecture) {
  ENTER(nvmlDeviceGetArchitecture, device, architecture != nullptr, kIdentity);
  return give(call.device().architecture, architecture);
}
NVML(nvmlDeviceGetCudaComputeCapability)
(nvmlDevice_t device, std::int32_t* major, std::int32_t* minor) {
  ENTER(nvmlDeviceGetCudaComputeCapability, device, major != nullptr && minor != nullptr,
        kIdentityOfAny);
  *major = static_cast<std::int32_t>(call.device().capability_major);
  *minor = static_cast<std::int32_t>(call.device().capability_minor);
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetNumGpuCores)(nvmlDevice_t device, std::uint32_t* cores) {
  ENTER(nvmlDeviceGetNumGpuCores, device, cores != nullptr, kIdentity);
  return give_if_known(call.device().cores, cores);
}
NVML(nvmlDeviceGetMemoryBusWidth)(nvmlDevice_t device, std::uint32_t* bits) {
  ENTER(nvmlDeviceGetMemoryBusWidth, device, bits != nullptr, kIdentity);
  return give_if_known(call.device().memory_bus_width, bits);
}

static nvmlReturn_t give_pci(const wire::Device& d, nvmlPciInfo_t* info) {
  put_addresses(d, info->busIdLegacy, info->busId);
  info->domain = d.pci_domain;
  info->bus = d.pci_bus;
  info->device = d.pci_slot;
  info->pciDeviceId = d.pci_id;
  info->pciSubSystemId = d.pci_subsystem;
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetPciInfo_v3)(nvmlDevice_t device, nvmlPciInfo_t* info) {
  ENTER(nvmlDeviceGetPciInfo_v3, device, info != nullptr, kIdentity);
  return give_pci(call.device(), info);
}
NVML(nvmlDeviceGetPciInfo_v2)(nvmlDevice_t device, nvmlPciInfo_v2_t* info) {
  ENTER(nvmlDeviceGetPciInfo_v2, device, info != nullptr, kIdentity);
  char full[32];
  const wire::Device& d = call.device();
  put_addresses(d, info->busId, full);
  info->domain = d.pci_domain;
  info->bus = d.pci_bus;
  info->device = d.pci_slot;
  info->pciDeviceId = d.pci_id;
  info->pciSubSystemId = d.pci_subsystem;
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetPciInfo)(nvmlDevice_t device, nvmlPciInfo_v2_t* info) {
  ENTER(nvmlDeviceGetPciInfo, device, info != nullptr, kIdentity);
  char full[32];
  const wire::Device& d = call.device();
  put_addresses(d, info->busId, full);
  info->domain = d.pci_domain;
  info->bus = d.pci_bus;
  info->device = d.pci_slot;
  info->pciDeviceId = d.pci_id;  // version 1 of the struct ends here
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetPciInfoExt)(nvmlDevice_t device, nvmlPciInfoExt_t* info) {
  ENTER(nvmlDeviceGetPciInfoExt, device, info != nullptr, kIdentity);
  if (info->version != nvml_struct_version<nvmlPciInfoExt_t>(1))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  char legacy[16];
  const wire::Device& d = call.device();
  put_addresses(d, legacy, info->busId);
  info->domain = d.pci_domain;
  info->bus = d.pci_bus;
  info->device = d.pci_slot;
  info->pciDeviceId = d.pci_id;
  info->pciSubSystemId = d.pci_subsystem;
  info->baseClass = d.pci_class >> 16U;
  info->subClass = d.pci_class >> 8U & 0xff;
  return NVML_SUCCESS;
}

NVML(nvmlDeviceGetComputeMode)(nvmlDevice_t device, nvmlComputeMode_t* mode) {
  ENTER(nvmlDeviceGetComputeMode, device, mode != nullptr, Ask{wire::k_compute_mode, false, false});
  *mode = static_cast<nvmlComputeMode_t>(call.device().compute_mode);
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetPersistenceMode)(nvmlDevice_t device, nvmlEnableState_t* mode) {
  ENTER(nvmlDeviceGetPersistenceMode, device, mode != nullptr);
  *mode = static_cast<nvmlEnableState_t>(call.device().persistence);
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetDisplayMode)(nvmlDevice_t device, nvmlEnableState_t* mode) {
  ENTER(nvmlDeviceGetDisplayMode, device, mode != nullptr);
  *mode = static_cast<nvmlEnableState_t>(call.device().display_active);
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetDisplayActive)(nvmlDevice_t device, nvmlEnableState_t* active) {
  ENTER(nvmlDeviceGetDisplayActive, device, active != nullptr);
  *active = static_cast<nvmlEnableState_t>(call.device().display_active);
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetAccountingMode)(nvmlDevice_t device, nvmlEnableState_t* mode) {
  ENTER(nvmlDeviceGetAccountingMode, device, mode != nullptr);
  *mode = NVML_FEATURE_DISABLED;
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetCpuAffinity)(nvmlDevice_t device, std::uint32_t words, unsigned long* set) {
  ENTER(nvmlDeviceGetCpuAffinity, device, set != nullptr && words > 0, kIdentity);
  if (call.device().local_cpus[0] == '\0') return NVML_ERROR_NOT_SUPPORTED;
  set_processors(call.device().local_cpus, words, set);
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetTopologyCommonAncestor)
(nvmlDevice_t device, nvmlDevice_t other, std::uint32_t* level) {
  ENTER(nvmlDeviceGetTopologyCommonAncestor, device, level != nullptr, kIdentity);
  const Call second(f_nvmlDeviceGetTopologyCommonAncestor, other, true, kIdentity);
  if (!second.ok()) return second.result();
  // The possible levels: the same board, the same NUMA node, or across nodes
  // (nvmlGpuTopologyLevel_t).
  const bool near = call.device().numa_node == second.device().numa_node;
  return give(call.number() == second.number() ? 0 : near ? 40 : 50, level);
}

NVML(nvmlDeviceGetMigMode)(nvmlDevice_t device, std::uint32_t* current, std::uint32_t* pending) {
  ENTER(nvmlDeviceGetMigMode, device, current != nullptr && pending != nullptr);
  if (call.device().mig_capable == 0) return NVML_ERROR_NOT_SUPPORTED;
  *current = *pending = call.device().mig_enabled;
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetMaxMigDeviceCount)(nvmlDevice_t device, std::uint32_t* count) {
  ENTER(nvmlDeviceGetMaxMigDeviceCount, device, count != nullptr, kIdentity);
  return give(call.device().mig_capable != 0 ? 7 : 0, count);
}
NVML(nvmlDeviceGetMigDeviceHandleByIndex)
(nvmlDevice_t device, std::uint32_t index, nvmlDevice_t* partition) {
  ENTER(nvmlDeviceGetMigDeviceHandleByIndex, device, partition != nullptr, kIdentity);
  if (call.device().mig_capable == 0) return NVML_ERROR_NOT_SUPPORTED;
  if (index >= 7) return NVML_ERROR_INVALID_ARGUMENT;
  if (index < call.device().partition_count) {
    *partition = handle_of(call.number(), index);
    return NVML_SUCCESS;
  }
  const std::uint32_t place = index - call.device().partition_count;
  if (!is_made(call.number(), place)) return NVML_ERROR_NOT_FOUND;
  *partition = handle_of(call.number(), kFirstMade + place);
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetDeviceHandleFromMigDeviceHandle)(nvmlDevice_t partition, nvmlDevice_t* device) {
  ENTER(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, partition, device != nullptr, kIdentityOfAny);
  if (!call.on_partition()) return NVML_ERROR_INVALID_ARGUMENT;
  *device = handle_of(call.number());
  return NVML_SUCCESS;
}
NVML(nvmlDeviceIsMigDeviceHandle)(nvmlDevice_t device, std::uint32_t* is_partition) {
  ENTER(nvmlDeviceIsMigDeviceHandle, device, is_partition != nullptr, kIdentityOfAny);
  return give(call.on_partition() ? 1 : 0, is_partition);
}
NVML(nvmlDeviceGetGpuInstanceId)(nvmlDevice_t device, std::uint32_t* id) {
  ENTER(nvmlDeviceGetGpuInstanceId, device, id != nullptr, kIdentityOfAny);
  if (!call.on_partition()) return NVML_ERROR_NOT_SUPPORTED;
  return give(call.partition_info().gpu_instance, id);
}
NVML(nvmlDeviceGetComputeInstanceId)(nvmlDevice_t device, std::uint32_t* id) {
  ENTER(nvmlDeviceGetComputeInstanceId, device, id != nullptr, kIdentityOfAny);
  if (!call.on_partition()) return NVML_ERROR_NOT_SUPPORTED;
  return give(call.partition_info().compute_instance, id);
}
NVML(nvmlDeviceGetAttributes_v2)(nvmlDevice_t device, nvmlDeviceAttributes_t* attributes) {
  ENTER(nvmlDeviceGetAttributes_v2, device, attributes != nullptr, kIdentityOfAny);
  return fill_attributes(call, attributes, sizeof(*attributes));
}

NVML(nvmlDeviceGetNvLinkState)(nvmlDevice_t device, std::uint32_t link, nvmlEnableState_t* active) {
  ENTER(nvmlDeviceGetNvLinkState, device, active != nullptr);
  if (call.device().nvlinks == 0) return NVML_ERROR_NOT_SUPPORTED;
  if (link >= call.device().nvlinks) return NVML_ERROR_INVALID_ARGUMENT;
  *active = NVML_FEATURE_ENABLED;
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetNvLinkRemoteDeviceType)
(nvmlDevice_t device, std::uint32_t link, nvmlIntNvLinkDeviceType_t* type) {
  ENTER(nvmlDeviceGetNvLinkRemoteDeviceType, device, type != nullptr);
  if (call.device().nvlinks == 0) return NVML_ERROR_NOT_SUPPORTED;
  if (link >= call.device().nvlinks) return NVML_ERROR_INVALID_ARGUMENT;
  *type =
      call.device().nvlink_to < 0 ? NVML_NVLINK_DEVICE_TYPE_SWITCH : NVML_NVLINK_DEVICE_TYPE_GPU;
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetNvLinkRemotePciInfo_v2)
(nvmlDevice_t device, std::uint32_t link, nvmlPciInfo_t* pci) {
  ENTER(nvmlDeviceGetNvLinkRemotePciInfo_v2, device, pci != nullptr);
  if (call.device().nvlinks == 0) return NVML_ERROR_NOT_SUPPORTED;
  if (link >= call.device().nvlinks) return NVML_ERROR_INVALID_ARGUMENT;
  const std::int32_t to = call.device().nvlink_to;
  if (to >= 0) return give_pci(view().device(static_cast<std::uint32_t>(to)), pci);
  wire::Device nvswitch{};  // a DGX has six NVSwitches; their addresses here are invented
  nvswitch.pci_bus = 0xc0 + link % 6;
  nvswitch.pci_id = 0x1af110deU;
  return give_pci(nvswitch, pci);
}
NVML(nvmlDeviceGetNvLinkVersion)(nvmlDevice_t device, std::uint32_t link, std::uint32_t* version) {
  ENTER(nvmlDeviceGetNvLinkVersion, device, version != nullptr);
  if (call.device().nvlinks == 0) return NVML_ERROR_NOT_SUPPORTED;
  if (link >= call.device().nvlinks) return NVML_ERROR_INVALID_ARGUMENT;
  const std::uint32_t architecture =
      call.device().architecture;  // the version of NVLink follows from the GPU's architecture
  return give(architecture >= 10 ? 5 : architecture == 9 ? 4 : architecture == 7 ? 3 : 2, version);
}
