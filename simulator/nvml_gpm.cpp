// GPM: the activity of parts of the chip between two samples, on Hopper and later. A sample holds
// only its time, because the load is a function of time.
#include <stdlib.h>

#include "simulator/nvml_core.hpp"

struct nvmlGpmSample_st {
  std::uint32_t device;
  bool is_taken;
  std::uint64_t time;
};

using namespace berth::simulator;

namespace {

bool has_gpm(const wire::Device& device) {
  return device.architecture >= NVML_DEVICE_ARCH_HOPPER && device.mig_enabled == 0;
}

/// The mean of the utilization at both samples, in percent, times the factor `part`.
double mean_of(const nvmlGpmSample_st& from, const nvmlGpmSample_st& to, double part) {
  const wire::Moment a(view(), from.device, from.time), b(view(), to.device, to.time);
  return (a.utilization() + b.utilization()) / 2.0 * part;
}

}  // namespace

NVML(nvmlGpmQueryDeviceSupport)(nvmlDevice_t device, nvmlGpmSupport_t* support) {
  ENTER(nvmlGpmQueryDeviceSupport, device, support != nullptr, kIdentity);
  if (support->version != NVML_GPM_SUPPORT_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  support->isSupportedDevice = has_gpm(call.device()) ? 1 : 0;
  return NVML_SUCCESS;
}
NVML(nvmlGpmSampleAlloc)(nvmlGpmSample_t* sample) {
  ENTER(nvmlGpmSampleAlloc, sample != nullptr);
  *sample = static_cast<nvmlGpmSample_t>(calloc(1, sizeof(nvmlGpmSample_st)));
  return *sample == nullptr ? NVML_ERROR_MEMORY : NVML_SUCCESS;
}
NVML(nvmlGpmSampleFree)(nvmlGpmSample_t sample) {
  ENTER(nvmlGpmSampleFree, sample != nullptr);
  free(sample);
  return NVML_SUCCESS;
}
NVML(nvmlGpmSampleGet)(nvmlDevice_t device, nvmlGpmSample_t sample) {
  ENTER(nvmlGpmSampleGet, device, sample != nullptr);
  if (!has_gpm(call.device())) return NVML_ERROR_NOT_SUPPORTED;
  sample->device = call.number();
  sample->is_taken = true;
  sample->time = call.now();
  return NVML_SUCCESS;
}
NVML(nvmlGpmMetricsGet)(nvmlGpmMetricsGet_t* get) {
  ENTER(nvmlGpmMetricsGet, get != nullptr && get->sample1 != nullptr && get->sample2 != nullptr &&
                               get->numMetrics <= NVML_GPM_METRIC_MAX);
  if (get->version != NVML_GPM_METRICS_GET_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  const nvmlGpmSample_st &from = *get->sample1, &to = *get->sample2;
  if (!from.is_taken || !to.is_taken || from.device != to.device)
    return NVML_ERROR_INVALID_ARGUMENT;
  for (std::uint32_t i = 0; i < get->numMetrics; ++i) {
    nvmlGpmMetric_t& metric = get->metrics[i];
    metric.metricInfo = {nullptr, nullptr, nullptr};
    metric.nvmlReturn = NVML_SUCCESS;
    switch (metric.metricId) {
      case NVML_GPM_METRIC_SM_UTIL:
        metric.value = mean_of(from, to, 0.8);
        break;
      case NVML_GPM_METRIC_ANY_TENSOR_UTIL:
        metric.value = mean_of(from, to, 0.4);
        break;
      case NVML_GPM_METRIC_DRAM_BW_UTIL:
        metric.value = mean_of(from, to, 0.55);
        break;
      default:
        metric.nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    }
  }
  return NVML_SUCCESS;
}
