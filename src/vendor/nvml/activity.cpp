#include "vendor/nvml/activity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace berth::nvml {

using model::Absence;
using model::Reading;

namespace {

constexpr std::uint32_t kMostLinks = 64;
constexpr std::uint64_t kMostBytesPerSecond = 100'000'000'000'000;

double seconds_between(Look::Clock::time_point a, Look::Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

void set_parts(model::DeviceReadings& readings, Absence why) {
  readings.sm_active_percent = readings.tensor_active_percent = readings.dram_active_percent = why;
}

Reading<double> percent_of(const nvmlGpmMetric_t& metric) {
  if (metric.nvmlReturn != NVML_SUCCESS) return absence(metric.nvmlReturn);
  // The driver rounds, so accept values slightly above 100 and report them as 100.
  if (!std::isfinite(metric.value) || metric.value < 0 || metric.value > 101)
    return Absence::kFailed;
  return std::min(std::round(metric.value * 100) / 100, 100.0);
}

Reading<std::uint64_t> number_in(const nvmlFieldValue_t& field, nvmlReturn_t code) {
  if (code != NVML_SUCCESS) return absence(code);
  if (field.nvmlReturn != NVML_SUCCESS) return absence(field.nvmlReturn);
  if (field.valueType == NVML_VALUE_TYPE_UNSIGNED_INT) return std::uint64_t{field.value.uiVal};
  if (field.valueType == NVML_VALUE_TYPE_UNSIGNED_LONG_LONG ||
      field.valueType == NVML_VALUE_TYPE_UNSIGNED_LONG)
    return std::uint64_t{field.value.ullVal};
  return Absence::kFailed;
}

nvmlFieldValue_t field_of(std::uint32_t id, std::uint32_t scope) {
  nvmlFieldValue_t field{};
  field.fieldId = id;
  field.scopeId = scope;
  field.nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
  return field;
}

Reading<std::uint64_t> rate_of(const Reading<std::uint64_t>& before,
                               const Reading<std::uint64_t>& now, double seconds) {
  if (!now) return now.why;
  if (!before || seconds <= 0) return Absence::kNeedsTwoReadings;
  // The counter is lower than before, because the driver was reloaded or the links were reset.
  if (*now < *before) return Absence::kFailed;
  const double rate = static_cast<double>(*now - *before) / seconds;
  if (rate > static_cast<double>(kMostBytesPerSecond)) return Absence::kFailed;
  return Reading<std::uint64_t>(static_cast<std::uint64_t>(rate)).over(seconds);
}

/// Returns the address of the GPU at the other end of a link; "" if an NVSwitch is there. nullopt
/// if it is anything else, or not known. A driver without DeviceGetNvLinkRemoteDeviceType is older
/// than NVSwitches.
std::optional<std::string> peer_of(Look& look, std::uint32_t link) {
  nvmlIntNvLinkDeviceType_t type = NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
  const nvmlReturn_t code =
      look(look.api.DeviceGetNvLinkRemoteDeviceType, look.device, link, &type);
  if (code == NVML_SUCCESS && type == NVML_NVLINK_DEVICE_TYPE_SWITCH) return "";
  const bool is_gpu = code == NVML_SUCCESS ? type == NVML_NVLINK_DEVICE_TYPE_GPU
                                           : code == NVML_ERROR_FUNCTION_NOT_FOUND;
  nvmlPciInfo_t pci{};
  if (!is_gpu ||
      look(look.api.DeviceGetNvLinkRemotePciInfo, look.device, link, &pci) != NVML_SUCCESS)
    return std::nullopt;
  if (pci.bus > 0xff || pci.device > 0x1f) return std::nullopt;
  return fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
}

}  // namespace

void read_nvlinks(Look& look, model::Device& device) {
  model::DeviceReadings& readings = device.readings;
  nvmlFieldValue_t field = field_of(NVML_FI_DEV_NVLINK_LINK_COUNT, 0);
  const nvmlReturn_t code = look(look.api.DeviceGetFieldValues, look.device, 1, &field);
  readings.nvlink_links_max = number_in(field, code);
  if (readings.nvlink_links_max && *readings.nvlink_links_max > kMostLinks)
    readings.nvlink_links_max = Absence::kFailed;
  // A GPU that reports 0 NVLinks does not support them.
  if (readings.nvlink_links_max && *readings.nvlink_links_max == 0)
    readings.nvlink_links_max = Absence::kNotSupported;
  if (!readings.nvlink_links_max) {
    readings.nvlink_links = readings.nvlink_links_max.why;
    return;
  }
  std::uint64_t active = 0;
  for (std::uint32_t link = 0; link < *readings.nvlink_links_max; ++link) {
    nvmlEnableState_t state{};
    const nvmlReturn_t answer = look(look.api.DeviceGetNvLinkState, look.device, link, &state);
    if (answer != NVML_SUCCESS) {
      readings.nvlink_links = absence(answer);
      return;
    }
    if (state != NVML_FEATURE_ENABLED) continue;
    ++active;
    const auto peer = peer_of(look, link);
    if (!peer) continue;
    auto known = std::find_if(device.nvlink_peers.begin(), device.nvlink_peers.end(),
                              [&](const auto& one) { return one.pci_address == *peer; });
    if (known == device.nvlink_peers.end())
      known = device.nvlink_peers.insert(known, model::NvLinkPeer{*peer, 0});
    ++known->links;
  }
  readings.nvlink_links = active;
}

Activity::~Activity() {
  for (const nvmlGpmSample_t sample : samples_)
    if (sample != nullptr && api_.GpmSampleFree != nullptr) api_.GpmSampleFree(sample);
}

std::optional<Absence> Activity::open(Look& look) {
  if (std::exchange(is_asked_, true)) return unsupported_;
  nvmlGpmSupport_t support{NVML_GPM_SUPPORT_VERSION, 0};
  const nvmlReturn_t code = look(look.api.GpmQueryDeviceSupport, look.device, &support);
  if (code != NVML_SUCCESS)
    unsupported_ = absence(code);
  else if (support.isSupportedDevice == 0)
    unsupported_ = Absence::kNotSupported;
  for (nvmlGpmSample_t& sample : samples_) {
    if (unsupported_) break;
    const nvmlReturn_t allocated = look(look.api.GpmSampleAlloc, &sample);
    if (allocated != NVML_SUCCESS) unsupported_ = absence(allocated);
  }
  return unsupported_;
}

void Activity::read_parts(Look& look, Look::Clock::time_point now,
                          model::DeviceReadings& readings) {
  if (const auto why_not = open(look)) return set_parts(readings, *why_not);
  std::swap(samples_[0], samples_[1]);
  const nvmlReturn_t code = look(look.api.GpmSampleGet, look.device, samples_[1]);
  const auto before = std::exchange(sampled_at_, std::nullopt);
  if (code != NVML_SUCCESS) return set_parts(readings, absence(code));
  sampled_at_ = now;
  if (!before) return set_parts(readings, Absence::kNeedsTwoReadings);
  const auto get = std::make_unique<nvmlGpmMetricsGet_t>();
  get->version = NVML_GPM_METRICS_GET_VERSION;
  get->sample1 = samples_[0];
  get->sample2 = samples_[1];
  constexpr std::array kMetrics{NVML_GPM_METRIC_SM_UTIL, NVML_GPM_METRIC_ANY_TENSOR_UTIL,
                                NVML_GPM_METRIC_DRAM_BW_UTIL};
  get->numMetrics = kMetrics.size();
  for (std::size_t i = 0; i < kMetrics.size(); ++i) {
    get->metrics[i].metricId = kMetrics.at(i);
    get->metrics[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
  }
  const nvmlReturn_t computed = look(look.api.GpmMetricsGet, get.get());
  if (computed != NVML_SUCCESS) return set_parts(readings, absence(computed));
  const double seconds = seconds_between(*before, now);
  readings.sm_active_percent = percent_of(get->metrics[0]).over(seconds);
  readings.tensor_active_percent = percent_of(get->metrics[1]).over(seconds);
  readings.dram_active_percent = percent_of(get->metrics[2]).over(seconds);
}

void Activity::read_nvlink_rates(Look& look, Look::Clock::time_point now,
                                 model::DeviceReadings& readings) {
  std::array<nvmlFieldValue_t, 2> fields{
      field_of(NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, NVML_ALL_LINKS),
      field_of(NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_ALL_LINKS)};
  const nvmlReturn_t code = look(look.api.DeviceGetFieldValues, look.device, 2, fields.data());
  const auto before = std::exchange(counted_, {});
  for (std::size_t i = 0; i < fields.size(); ++i) {
    counted_[i] = number_in(fields[i], code);
    if (counted_[i]) counted_[i] = *counted_[i] * 1024;  // the driver's counter is in KiB
  }
  const double seconds = counted_at_ ? seconds_between(*counted_at_, now) : 0;
  counted_at_ = now;
  readings.nvlink_rx_bytes_per_second = rate_of(before[0], counted_[0], seconds);
  readings.nvlink_tx_bytes_per_second = rate_of(before[1], counted_[1], seconds);
}

}  // namespace berth::nvml
