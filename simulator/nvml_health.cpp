// The PCIe link, errors, remapped rows, and the fields of nvmlDeviceGetFieldValues.
#include "simulator/nvml_core.hpp"
#include "simulator/nvml_structs.hpp"

using namespace berth::simulator;

namespace {

constexpr Ask needs(std::uint32_t ability) {
  return {ability, false, false};
}

nvmlReturn_t give(std::uint32_t value, std::uint32_t* into) {
  *into = value;
  return NVML_SUCCESS;
}

bool has_row_remapper(const wire::Device& d) {
  constexpr std::uint32_t kAmpere = 7;
  return d.ecc != 0 && d.architecture >= kAmpere && (d.unsupported >> wire::k_remap & 1U) == 0;
}

struct Rows {
  std::uint32_t uncorrected, pending, failed;
};

Rows remapped(const wire::Moment& at) {
  const wire::Fault* fault = at.fault(wire::kRemap);
  if (fault == nullptr) return {0, 0, 0};
  if (fault->value == wire::kRemapPending) return {1, 1, 0};
  if (fault->value == wire::kRemapFailed) return {1, 0, 1};
  return {static_cast<std::uint32_t>(fault->value), 0, 0};
}

std::uint64_t ecc_errors(const wire::Moment& at, nvmlMemoryErrorType_t type) {
  const wire::Fault* fault = at.fault(wire::kEcc);
  return fault != nullptr && type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED ? fault->value : 0;
}

/// Reads a field of nvmlDeviceGetFieldValues as an unsigned number. Returns false if the device
/// does not have the field.
bool field(const Call& call, std::uint32_t id, std::uint32_t scope, std::uint64_t* value) {
  const wire::Moment at = call.moment();
  const wire::Device& d = call.device();
  const auto lacks = [&d](std::uint32_t ability) { return (d.unsupported >> ability & 1U) != 0; };
  switch (id) {
    case NVML_FI_DEV_ECC_SBE_VOL_TOTAL:
      *value = 0;
      return d.ecc != 0;
    case NVML_FI_DEV_ECC_DBE_VOL_TOTAL:
      *value = ecc_errors(at, NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
      return d.ecc != 0;
    case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
      *value = at.energy();
      return !lacks(wire::k_energy);
    case NVML_FI_DEV_NVLINK_LINK_COUNT:
      *value = d.nvlinks;
      return d.nvlinks != 0;
    case NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX:
    case NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX:
      *value = at.nvlink_kibibytes(id == NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX);
      if (scope < d.nvlinks) *value /= d.nvlinks;
      return d.nvlinks != 0 && (scope < d.nvlinks || scope == NVML_ALL_LINKS);
    case NVML_FI_DEV_REMAPPED_COR:
      *value = 0;
      return has_row_remapper(d);
    case NVML_FI_DEV_REMAPPED_UNC:
      *value = remapped(at).uncorrected;
      return has_row_remapper(d);
    case NVML_FI_DEV_REMAPPED_PENDING:
      *value = remapped(at).pending;
      return has_row_remapper(d);
    case NVML_FI_DEV_REMAPPED_FAILURE:
      *value = remapped(at).failed;
      return has_row_remapper(d);
    case NVML_FI_DEV_POWER_AVERAGE:
    case NVML_FI_DEV_POWER_INSTANT:
      *value = at.power();
      return !lacks(wire::k_power);
    case NVML_FI_DEV_MEMORY_TEMP:
      *value = at.temperature() + 4;
      return d.ecc != 0 && !lacks(wire::k_temperature);
    default:
      return false;
  }
}

}  // namespace

NVML(nvmlDeviceGetCurrPcieLinkGeneration)(nvmlDevice_t device, std::uint32_t* generation) {
  ENTER(nvmlDeviceGetCurrPcieLinkGeneration, device, generation != nullptr, needs(wire::k_pcie));
  return give(call.moment().pcie_generation(), generation);
}
NVML(nvmlDeviceGetMaxPcieLinkGeneration)(nvmlDevice_t device, std::uint32_t* generation) {
  ENTER(nvmlDeviceGetMaxPcieLinkGeneration, device, generation != nullptr, needs(wire::k_pcie));
  return give(call.device().pcie_generation_max, generation);
}
NVML(nvmlDeviceGetGpuMaxPcieLinkGeneration)(nvmlDevice_t device, std::uint32_t* generation) {
  ENTER(nvmlDeviceGetGpuMaxPcieLinkGeneration, device, generation != nullptr, needs(wire::k_pcie));
  return give(call.device().pcie_generation_max, generation);
}
NVML(nvmlDeviceGetCurrPcieLinkWidth)(nvmlDevice_t device, std::uint32_t* width) {
  ENTER(nvmlDeviceGetCurrPcieLinkWidth, device, width != nullptr, needs(wire::k_pcie));
  return give(call.device().pcie_width, width);
}
NVML(nvmlDeviceGetMaxPcieLinkWidth)(nvmlDevice_t device, std::uint32_t* width) {
  ENTER(nvmlDeviceGetMaxPcieLinkWidth, device, width != nullptr, needs(wire::k_pcie));
  return give(call.device().pcie_width_max, width);
}
NVML(nvmlDeviceGetPcieReplayCounter)(nvmlDevice_t device, std::uint32_t* count) {
  ENTER(nvmlDeviceGetPcieReplayCounter, device, count != nullptr, needs(wire::k_pcie));
  return give(0, count);
}
/// Blocks as long as a real measurement, which takes 20 ms according to nvml.h.
NVML(nvmlDeviceGetPcieThroughput)
(nvmlDevice_t device, nvmlPcieUtilCounter_t counter, std::uint32_t* kilobytes) {
  ENTER(nvmlDeviceGetPcieThroughput, device,
        kilobytes != nullptr && counter <= NVML_PCIE_UTIL_RX_BYTES, needs(wire::k_pcie));
  sleep_for(view().state().pcie_window);
  return give(call.moment().pcie_kilobytes(counter == NVML_PCIE_UTIL_RX_BYTES), kilobytes);
}

NVML(nvmlDeviceGetEccMode)
(nvmlDevice_t device, nvmlEnableState_t* current, nvmlEnableState_t* pending) {
  ENTER(nvmlDeviceGetEccMode, device, current != nullptr && pending != nullptr, needs(wire::k_ecc));
  if (call.device().ecc == 0) return NVML_ERROR_NOT_SUPPORTED;
  *current = *pending = NVML_FEATURE_ENABLED;
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetTotalEccErrors)
(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
 std::uint64_t* count) {
  ENTER(nvmlDeviceGetTotalEccErrors, device,
        count != nullptr && type <= NVML_MEMORY_ERROR_TYPE_UNCORRECTED &&
            counter <= NVML_AGGREGATE_ECC,
        needs(wire::k_ecc));
  if (call.device().ecc == 0) return NVML_ERROR_NOT_SUPPORTED;
  *count = ecc_errors(call.moment(), type);
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetMemoryErrorCounter)
(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
 nvmlMemoryLocation_t where, std::uint64_t* count) {
  ENTER(nvmlDeviceGetMemoryErrorCounter, device,
        count != nullptr && type <= NVML_MEMORY_ERROR_TYPE_UNCORRECTED &&
            counter <= NVML_AGGREGATE_ECC,
        needs(wire::k_ecc));
  if (call.device().ecc == 0) return NVML_ERROR_NOT_SUPPORTED;
  *count = where == NVML_MEMORY_LOCATION_DRAM ? ecc_errors(call.moment(), type) : 0;
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetRemappedRows)
(nvmlDevice_t device, std::uint32_t* corrected, std::uint32_t* uncorrected, std::uint32_t* pending,
 std::uint32_t* failed) {
  ENTER(nvmlDeviceGetRemappedRows, device,
        corrected != nullptr && uncorrected != nullptr && pending != nullptr && failed != nullptr,
        needs(wire::k_remap));
  if (!has_row_remapper(call.device())) return NVML_ERROR_NOT_SUPPORTED;
  const Rows rows = remapped(call.moment());
  *corrected = 0;
  *uncorrected = rows.uncorrected;
  *pending = rows.pending;
  *failed = rows.failed;
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetRowRemapperHistogram)
(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t* values) {
  ENTER(nvmlDeviceGetRowRemapperHistogram, device, values != nullptr, needs(wire::k_remap));
  if (!has_row_remapper(call.device())) return NVML_ERROR_NOT_SUPPORTED;
  const Rows rows = remapped(call.moment());
  *values = {rows.failed != 0 ? 639U : 640U, rows.uncorrected, 0, 0, rows.failed};
  return NVML_SUCCESS;
}

/// Each field has its own result. The call succeeds even if a field is not supported.
NVML(nvmlDeviceGetFieldValues)(nvmlDevice_t device, std::int32_t count, nvmlFieldValue_t* values) {
  ENTER(nvmlDeviceGetFieldValues, device, values != nullptr && count > 0);
  for (std::int32_t i = 0; i < count; ++i) {
    nvmlFieldValue_t& out = values[i];
    std::uint64_t value = 0;
    const bool known = field(call, out.fieldId, out.scopeId, &value);
    out.timestamp = view().state().start_unix_us + static_cast<std::int64_t>(call.now() / 1000);
    out.latencyUsec = 0;
    out.nvmlReturn = known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    const bool wide = out.fieldId == NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX ||
                      out.fieldId == NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX ||
                      out.fieldId == NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION ||
                      out.fieldId == NVML_FI_DEV_ECC_SBE_VOL_TOTAL ||
                      out.fieldId == NVML_FI_DEV_ECC_DBE_VOL_TOTAL;
    out.valueType = wide ? NVML_VALUE_TYPE_UNSIGNED_LONG_LONG : NVML_VALUE_TYPE_UNSIGNED_INT;
    out.value.ullVal = value;
  }
  return NVML_SUCCESS;
}
