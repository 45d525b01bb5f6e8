#include <doctest/doctest.h>

#include "vendor/nvml/device.hpp"

using berth::model::Absence;
using berth::model::Device;
using berth::nvml::Api;
using berth::nvml::Look;

namespace {

Device read(const Api& api) {
  static int here = 0;
  Look look{api, reinterpret_cast<nvmlDevice_t>(&here)};
  Device device;
  device.mig_enabled = true;
  berth::nvml::read_partitions(look, device);
  return device;
}

}  // namespace

TEST_CASE("refused partitions are unknown, not missing") {
  Api api;
  api.DeviceGetMaxMigDeviceCount = [](nvmlDevice_t, std::uint32_t* count) {
    *count = 7;
    return NVML_SUCCESS;
  };
  api.DeviceGetMigDeviceHandleByIndex = [](nvmlDevice_t, std::uint32_t, nvmlDevice_t*) {
    return NVML_ERROR_NO_PERMISSION;
  };
  CHECK(read(api).partitions_unknown == Absence::kNoPermission);
  api.DeviceGetMigDeviceHandleByIndex = [](nvmlDevice_t, std::uint32_t, nvmlDevice_t*) {
    return NVML_ERROR_NOT_FOUND;
  };
  CHECK_FALSE(read(api).partitions_unknown);
  api.DeviceGetMaxMigDeviceCount = [](nvmlDevice_t, std::uint32_t*) { return NVML_ERROR_UNKNOWN; };
  CHECK(read(api).partitions_unknown == Absence::kFailed);
}
