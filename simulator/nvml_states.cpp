// States that make a GPU unusable or slow: fabric, guest licence, confidential computing, retired
// pages, application clocks, peer access.
#include "simulator/nvml_core.hpp"
#include "simulator/nvml_structs.hpp"

using namespace berth::simulator;

namespace {

constexpr std::uint32_t kVolta = 5, kHopper = 9;

bool is_data_centre(const wire::Device& d) {
  return d.brand == NVML_BRAND_TESLA || d.brand == NVML_BRAND_NVIDIA;
}

std::uint32_t usual_clock(const wire::Device& d) {
  return d.clock_graphics_max;
}

void copy(const char* from, char* into) {
  std::size_t i = 0;
  for (; from[i] != '\0'; ++i) into[i] = from[i];
  into[i] = '\0';
}

}  // namespace

/// GPUs before Hopper do not support this function. For a Hopper GPU without a fabric, the call
/// succeeds and its state is "not supported".
NVML(nvmlDeviceGetGpuFabricInfo)(nvmlDevice_t device, nvmlGpuFabricInfo_t* info) {
  ENTER(nvmlDeviceGetGpuFabricInfo, device, info != nullptr);
  const wire::Device& d = call.device();
  if (d.architecture < kHopper) return NVML_ERROR_NOT_SUPPORTED;
  *info = {};
  info->state = static_cast<std::uint8_t>(d.fabric);
  if (d.fabric == NVML_GPU_FABRIC_STATE_COMPLETED) info->cliqueId = 1;
  return NVML_SUCCESS;
}

NVML(nvmlDeviceGetVirtualizationMode)(nvmlDevice_t device, nvmlGpuVirtualizationMode_t* mode) {
  ENTER(nvmlDeviceGetVirtualizationMode, device, mode != nullptr);
  *mode = call.device().vgpu != 0 ? NVML_GPU_VIRTUALIZATION_MODE_VGPU
                                  : NVML_GPU_VIRTUALIZATION_MODE_NONE;
  return NVML_SUCCESS;
}

NVML(nvmlDeviceGetGridLicensableFeatures_v4)
(nvmlDevice_t device, nvmlGridLicensableFeatures_t* features) {
  ENTER(nvmlDeviceGetGridLicensableFeatures_v4, device, features != nullptr);
  *features = {};
  if (call.device().vgpu == 0) return NVML_SUCCESS;
  features->isGridLicenseSupported = 1;
  features->licensableFeaturesCount = 1;
  nvmlGridLicensableFeature_t& one = features->gridLicensableFeatures[0];
  one.featureCode = NVML_GRID_LICENSE_FEATURE_CODE_VGPU;
  one.featureEnabled = 1;
  one.featureState = call.device().vgpu == 1 ? 1 : 0;
  copy("NVIDIA RTX Virtual Workstation", one.productName);
  copy(one.featureState != 0 ? "Licensed" : "Unlicensed", one.licenseInfo);
  return NVML_SUCCESS;
}

NVML(nvmlSystemGetConfComputeState)(nvmlConfComputeSystemState_t* state) {
  ENTER(nvmlSystemGetConfComputeState, state != nullptr);
  *state = {};
  state->ccFeature = view().state().confidential != 0 ? 1 : 0;
  return NVML_SUCCESS;
}

NVML(nvmlSystemGetConfComputeGpusReadyState)(std::uint32_t* ready) {
  ENTER(nvmlSystemGetConfComputeGpusReadyState, ready != nullptr);
  if (view().state().confidential == 0) return NVML_ERROR_NOT_SUPPORTED;
  *ready = view().state().confidential == 2 ? 1 : 0;
  return NVML_SUCCESS;
}

/// Turing and older GPUs retire memory pages. Ampere and newer GPUs remap rows instead, so they do
/// not support this function.
NVML(nvmlDeviceGetRetiredPagesPendingStatus)(nvmlDevice_t device, nvmlEnableState_t* pending) {
  ENTER(nvmlDeviceGetRetiredPagesPendingStatus, device, pending != nullptr,
        Ask{wire::k_ecc, false, false});
  const wire::Device& d = call.device();
  if (d.ecc == 0 || (d.architecture > kVolta + 1 && d.retired_pending == 0))
    return NVML_ERROR_NOT_SUPPORTED;
  *pending = d.retired_pending != 0 ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
  return NVML_SUCCESS;
}

/// Only data-centre GPUs have application clocks.
NVML(nvmlDeviceGetApplicationsClock)
(nvmlDevice_t device, nvmlClockType_t clock, std::uint32_t* mhz) {
  ENTER(nvmlDeviceGetApplicationsClock, device, mhz != nullptr, Ask{wire::k_clocks, false, false});
  const wire::Device& d = call.device();
  if (d.clock_application == 0 && !is_data_centre(d)) return NVML_ERROR_NOT_SUPPORTED;
  if (clock != NVML_CLOCK_GRAPHICS) {
    *mhz = d.clock_memory_max;
    return NVML_SUCCESS;
  }
  *mhz = d.clock_application != 0 ? d.clock_application : usual_clock(d);
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetDefaultApplicationsClock)
(nvmlDevice_t device, nvmlClockType_t clock, std::uint32_t* mhz) {
  ENTER(nvmlDeviceGetDefaultApplicationsClock, device, mhz != nullptr,
        Ask{wire::k_clocks, false, false});
  const wire::Device& d = call.device();
  if (d.clock_application == 0 && !is_data_centre(d)) return NVML_ERROR_NOT_SUPPORTED;
  *mhz = clock == NVML_CLOCK_GRAPHICS ? usual_clock(d) : d.clock_memory_max;
  return NVML_SUCCESS;
}

NVML(nvmlDeviceGetP2PStatus)
(nvmlDevice_t one, nvmlDevice_t other, nvmlGpuP2PCapsIndex_t what, nvmlGpuP2PStatus_t* status) {
  ENTER(nvmlDeviceGetP2PStatus, one,
        other != nullptr && status != nullptr && what <= NVML_P2P_CAPS_INDEX_WRITE);
  const wire::Device& second = view().device(other->device);
  *status = call.device().no_peer_access != 0 || second.no_peer_access != 0
                ? NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED
                : NVML_P2P_STATUS_OK;
  return NVML_SUCCESS;
}
