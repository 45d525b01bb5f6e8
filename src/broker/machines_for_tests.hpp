// Machines, jobs and times shared by the broker's tests.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "broker/broker.hpp"

namespace berth::broker::for_tests {

using model::Device;
using model::Snapshot;

inline constexpr std::uint64_t kGiB = 1ULL << 30;

inline Snapshot gpus(int count, std::uint64_t gib = 24) {
  Snapshot machine;
  machine.host.cpu.affinity = "0-15";
  machine.host.cpu.cores_total = machine.host.cpu.cores_affinity = 16;
  machine.host.cpu.cores_usable = 16;
  for (int i = 0; i < count; ++i) {
    Device device;
    device.index = i;
    device.vendor = model::Vendor::kNvidia;
    device.name = "A";
    device.uuid = "GPU-" + std::to_string(i);
    device.health = model::Health::kOk;
    device.compute_mode = "default";
    device.readings.memory_total_bytes = gib * kGiB;
    device.readings.memory_used_bytes = 0;
    machine.devices.push_back(device);
  }
  return machine;
}

inline Now at(int seconds) {
  return {std::chrono::seconds(seconds), 1'700'000'000'000 + seconds * 1000LL};
}

inline Job wants(int devices, std::uint32_t uid = 1) {
  Job job;
  job.uid = uid;
  job.user = "u" + std::to_string(uid);
  job.request.gpus = devices;
  return job;
}

inline JobId submit(Broker& broker, Job job, int seconds = 0) {
  const auto id = broker.submit(std::move(job), at(seconds));
  REQUIRE(id);
  return *id;
}

inline Broker on(const Snapshot& machine) {
  Broker broker;
  broker.see(machine, {});
  return broker;
}

inline std::string unit(const Broker& broker, JobId id) {
  return broker.job(id)->grants.at(0).unit;
}

}  // namespace berth::broker::for_tests
