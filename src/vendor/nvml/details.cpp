#include "vendor/nvml/details.hpp"

#include <algorithm>

namespace berth::nvml {
namespace {

/// Calls a function that returns one number.
template <typename Value, typename Function, typename... Before>
Answer ask(Look& look, Function function, Before... before) {
  Value value{};
  Answer answer;
  answer.code = look(function, look.device, before..., &value);
  if (answer.ok()) answer.value = static_cast<std::uint64_t>(value);
  return answer;
}

void read_place(Look& look, Details& details) {
  nvmlPciInfo_t pci{};
  const std::uint32_t code = look(look.api.DeviceGetPciInfo, look.device, &pci);
  details.domain = {code, pci.domain};
  details.bus = {code, pci.bus};
  details.slot = {code, pci.device};
}

void read_licence(Look& look, Details& details) {
  details.virtualization =
      ask<nvmlGpuVirtualizationMode_t>(look, look.api.DeviceGetVirtualizationMode);
  if (!details.virtualization.ok() ||
      details.virtualization.value != NVML_GPU_VIRTUALIZATION_MODE_VGPU)
    return;
  nvmlGridLicensableFeatures_t features{};
  details.unlicensed.code = look(look.api.DeviceGetGridLicensableFeatures, look.device, &features);
  if (!details.unlicensed.ok()) return;
  if (features.isGridLicenseSupported == 0) {
    details.unlicensed.code = NVML_ERROR_NOT_SUPPORTED;
    return;
  }
  for (std::uint32_t i = 0; i < std::min(features.licensableFeaturesCount, 3U); ++i) {
    const nvmlGridLicensableFeature_t& one = features.gridLicensableFeatures[i];
    if (one.featureEnabled != 0 && one.featureState == 0) ++details.unlicensed.value;
  }
}

}  // namespace

Details read_details(Look& look) {
  const Api& api = look.api;
  Details details;
  read_place(look, details);
  nvmlGpuFabricInfo_t fabric{};
  details.fabric.code = look(api.DeviceGetGpuFabricInfo, look.device, &fabric);
  details.fabric.value = fabric.state;
  details.fabric_status = {details.fabric.code, fabric.status};
  read_licence(look, details);
  nvmlBAR1Memory_t bar{};
  details.bar1_bytes.code = look(api.DeviceGetBAR1MemoryInfo, look.device, &bar);
  details.bar1_bytes.value = bar.bar1Total;
  details.display_active = ask<nvmlEnableState_t>(look, api.DeviceGetDisplayActive);
  details.retired_pages_pending =
      ask<nvmlEnableState_t>(look, api.DeviceGetRetiredPagesPendingStatus);
  details.power_limit_default = ask<std::uint32_t>(look, api.DeviceGetPowerManagementDefaultLimit);
  details.clock_application =
      ask<std::uint32_t>(look, api.DeviceGetApplicationsClock, NVML_CLOCK_GRAPHICS);
  details.clock_application_default =
      ask<std::uint32_t>(look, api.DeviceGetDefaultApplicationsClock, NVML_CLOCK_GRAPHICS);
  return details;
}

Confidential read_confidential(const Api& api) {
  Confidential confidential;
  Look look{api};
  nvmlConfComputeSystemState_t state{};
  confidential.on.code = look(api.SystemGetConfComputeState, &state);
  confidential.on.value = state.ccFeature;
  if (!confidential.on.ok() || state.ccFeature == 0) return confidential;
  std::uint32_t ready = 0;
  confidential.ready.code = look(api.SystemGetConfComputeGpusReadyState, &ready);
  confidential.ready.value = ready;
  return confidential;
}

Answer read_peer(Look& look, nvmlDevice_t other) {
  Answer worse;
  for (const nvmlGpuP2PCapsIndex_t what : {NVML_P2P_CAPS_INDEX_READ, NVML_P2P_CAPS_INDEX_WRITE}) {
    const Answer one = ask<nvmlGpuP2PStatus_t>(look, look.api.DeviceGetP2PStatus, other, what);
    if (!one.ok()) return one;
    if (what == NVML_P2P_CAPS_INDEX_READ || one.value != NVML_P2P_STATUS_OK) worse = one;
    if (one.value != NVML_P2P_STATUS_OK) break;
  }
  return worse;
}

}  // namespace berth::nvml
