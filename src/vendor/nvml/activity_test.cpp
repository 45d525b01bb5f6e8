#include "vendor/nvml/activity.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace berth;
using model::Absence;
using std::chrono::seconds;

namespace {

// Functions in the table are plain pointers and cannot capture, so they keep their state in these
// variables.
int allocated = 0, freed = 0;
double sm = 60;
nvmlReturn_t sampled = NVML_SUCCESS;
std::uint64_t received = 1000, sent = 10;
std::uint32_t links_down = 0;

nvmlReturn_t fields(nvmlDevice_t, std::int32_t count, nvmlFieldValue_t* values) {
  for (std::int32_t i = 0; i < count; ++i) {
    nvmlFieldValue_t& field = values[i];
    const bool is_count = field.fieldId == NVML_FI_DEV_NVLINK_LINK_COUNT;
    if (!is_count && field.scopeId != NVML_ALL_LINKS) return NVML_ERROR_INVALID_ARGUMENT;
    field.nvmlReturn = NVML_SUCCESS;
    field.valueType = is_count ? NVML_VALUE_TYPE_UNSIGNED_INT : NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
    field.value.ullVal = is_count                                                 ? 4
                         : field.fieldId == NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX ? received
                                                                                  : sent;
  }
  return NVML_SUCCESS;
}

nvml::Api with_gpm() {
  nvml::Api api;
  api.GpmQueryDeviceSupport = [](nvmlDevice_t, nvmlGpmSupport_t* support) {
    support->isSupportedDevice = support->version == 1 ? 1 : 0;
    return NVML_SUCCESS;
  };
  api.GpmSampleAlloc = [](nvmlGpmSample_t* sample) {
    *sample = reinterpret_cast<nvmlGpmSample_t>(++allocated);
    return NVML_SUCCESS;
  };
  api.GpmSampleFree = [](nvmlGpmSample_t) {
    ++freed;
    return NVML_SUCCESS;
  };
  api.GpmSampleGet = [](nvmlDevice_t, nvmlGpmSample_t) { return sampled; };
  api.GpmMetricsGet = [](nvmlGpmMetricsGet_t* get) {
    if (get->version != 1 || get->numMetrics != 3 || get->sample1 == get->sample2)
      return NVML_ERROR_INVALID_ARGUMENT;
    get->metrics[0].nvmlReturn = get->metrics[1].nvmlReturn = NVML_SUCCESS;
    get->metrics[0].value = sm;
    get->metrics[1].value = 100.4;  // drivers may report slightly more than 100 %
    return NVML_SUCCESS;            // the third metric has no answer
  };
  api.DeviceGetFieldValues = fields;
  api.DeviceGetNvLinkState = [](nvmlDevice_t, std::uint32_t link, nvmlEnableState_t* state) {
    *state = link < links_down ? NVML_FEATURE_DISABLED : NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
  };
  return api;
}

struct Test {
  nvml::Api api = with_gpm();
  nvml::Look look{api, reinterpret_cast<nvmlDevice_t>(&allocated)};
  nvml::Activity activity{api};
  nvml::Look::Clock::time_point now{seconds(100)};

  model::DeviceReadings parts(int later) {
    model::DeviceReadings readings;
    activity.read_parts(look, now += seconds(later), readings);
    return readings;
  }
  model::DeviceReadings rates(int later) {
    model::DeviceReadings readings;
    activity.read_nvlink_rates(look, now += seconds(later), readings);
    return readings;
  }
};

}  // namespace

TEST_CASE("the activity of a chip's parts needs two samples, and says its window") {
  allocated = freed = 0;
  {
    Test test;
    CHECK(test.parts(0).sm_active_percent.why == Absence::kNeedsTwoReadings);
    const auto readings = test.parts(2);
    CHECK(*readings.sm_active_percent == 60);
    CHECK(readings.sm_active_percent.window_seconds == 2);
    CHECK(*readings.tensor_active_percent == 100);
    CHECK(readings.dram_active_percent.why == Absence::kNotSupported);
    sm = std::nan("");
    CHECK(test.parts(1).sm_active_percent.why == Absence::kFailed);
    sm = 4294967295.0;
    CHECK(test.parts(1).sm_active_percent.why == Absence::kFailed);
    sm = 60;
    // If a sample fails, the older sample is discarded, too. A mean over the gap would cover an
    // unknown time.
    sampled = NVML_ERROR_UNKNOWN;
    CHECK(test.parts(1).sm_active_percent.why == Absence::kFailed);
    sampled = NVML_SUCCESS;
    CHECK(test.parts(1).sm_active_percent.why == Absence::kNeedsTwoReadings);
    CHECK(test.parts(1).sm_active_percent);
  }
  CHECK(allocated == 2);
  CHECK(freed == 2);
}

TEST_CASE("a driver without GPM, or a device that it does not support, has no activity") {
  Test test;
  test.api.GpmQueryDeviceSupport = nullptr;
  for (int i = 0; i < 2; ++i) CHECK(test.parts(1).sm_active_percent.why == Absence::kNotSupported);
  Test older;
  older.api.GpmQueryDeviceSupport = [](nvmlDevice_t, nvmlGpmSupport_t*) { return NVML_SUCCESS; };
  for (int i = 0; i < 2; ++i)
    CHECK(older.parts(1).dram_active_percent.why == Absence::kNotSupported);
}

TEST_CASE("what NVLinks carry is the difference of two counts in KiB") {
  Test test;
  CHECK(test.rates(0).nvlink_rx_bytes_per_second.why == Absence::kNeedsTwoReadings);
  received += 50;
  sent += 20;
  const auto readings = test.rates(10);
  CHECK(*readings.nvlink_rx_bytes_per_second == 5 * 1024);
  CHECK(*readings.nvlink_tx_bytes_per_second == 2 * 1024);
  CHECK(readings.nvlink_tx_bytes_per_second.window_seconds == 10);
  received = 0;
  CHECK(test.rates(10).nvlink_rx_bytes_per_second.why == Absence::kFailed);
  CHECK(*test.rates(10).nvlink_rx_bytes_per_second == 0);
}

TEST_CASE("NVLinks that are down are not counted as active") {
  Test test;
  links_down = 1;
  model::Device device;
  nvml::read_nvlinks(test.look, device);
  CHECK(*device.readings.nvlink_links == 3);
  CHECK(*device.readings.nvlink_links_max == 4);
  CHECK(device.nvlink_peers.empty());
  test.api.DeviceGetFieldValues = nullptr;
  nvml::read_nvlinks(test.look, device);
  CHECK(device.readings.nvlink_links.why == Absence::kNotSupported);
}

TEST_CASE("active NVLinks are counted by the GPU at the other end") {
  Test test;
  links_down = 1;
  test.api.DeviceGetNvLinkRemotePciInfo = [](nvmlDevice_t, std::uint32_t link,
                                             nvmlPciInfo_t* info) {
    info->bus = link < 3 ? 0x81 : 0xc1;
    return NVML_SUCCESS;
  };
  const auto peers = [&] {
    model::Device device;
    nvml::read_nvlinks(test.look, device);
    std::string out;
    for (const model::NvLinkPeer& peer : device.nvlink_peers)
      out += "[" + peer.pci_address + "]=" + std::to_string(peer.links) + " ";
    return out;
  };
  // An old driver does not report what is at the other end of a link. It is older than NVSwitches,
  // so every end is a GPU.
  CHECK(peers() == "[0000:81:00.0]=2 [0000:c1:00.0]=1 ");
  test.api.DeviceGetNvLinkRemoteDeviceType = [](nvmlDevice_t, std::uint32_t link,
                                                nvmlIntNvLinkDeviceType_t* type) {
    *type = link == 3 ? NVML_NVLINK_DEVICE_TYPE_SWITCH : NVML_NVLINK_DEVICE_TYPE_GPU;
    return NVML_SUCCESS;
  };
  CHECK(peers() == "[0000:81:00.0]=2 []=1 ");
  test.api.DeviceGetNvLinkRemoteDeviceType = [](nvmlDevice_t, std::uint32_t,
                                                nvmlIntNvLinkDeviceType_t* type) {
    *type = NVML_NVLINK_DEVICE_TYPE_IBMNPU;
    return NVML_SUCCESS;
  };
  CHECK(peers().empty());
}
