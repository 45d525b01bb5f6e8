// Jobs as bytes: from a client, from the journal, or from a broker of another version. What can be
// read must be written back unchanged, and a broker that gets it must keep consistent sums.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "broker/broker.hpp"
#include "broker/job_record.hpp"
#include "client/jobs.hpp"
#include "client/machine.hpp"

namespace {

berth::model::Snapshot two_gpus() {
  berth::model::Snapshot machine;
  machine.host.cpu.affinity = "0-3";
  machine.host.cpu.cores_total = machine.host.cpu.cores_affinity = 4;
  machine.host.cpu.cores_usable = 4;
  for (int i = 0; i < 2; ++i) {
    berth::model::Device device;
    device.index = i;
    device.vendor = berth::model::Vendor::kNvidia;
    device.uuid = "GPU-" + std::to_string(i);
    device.health = berth::model::Health::kOk;
    device.compute_mode = "default";
    device.readings.memory_total_bytes = 24ULL << 30;
    device.readings.memory_used_bytes = 0;
    machine.devices.push_back(device);
  }
  return machine;
}

void submit(berth::model::Job job) {
  job.after.clear();
  job.state = berth::model::JobState::kWaiting;
  berth::broker::Broker broker;
  broker.see(two_gpus(), {});
  if (!broker.submit(job, {})) return;
  static_cast<void>(broker.submit(std::move(job), {}));
  static_cast<void>(broker.start_what_fits({}));
  std::uint64_t alone = 0;
  for (const auto& one : broker.ledger().holdings) alone += one.memory_bytes == 0 ? 1 : 0;
  BERTH_CHECK(alone <= 2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto job = berth::broker::job_of(text);
  if (job) {
    const std::string record = berth::broker::record_of(*job);
    const auto again = berth::broker::job_of(record);
    BERTH_CHECK(again && berth::broker::record_of(*again) == record);
    submit(*job);
  }
  for (const int status : {200, 409}) {
    static_cast<void>(berth::client::job_in({status, text}));
    static_cast<void>(berth::client::jobs_in({status, text}));
    static_cast<void>(berth::client::machine_in({status, text}));
    static_cast<void>(berth::client::closed_in({status, text}));
  }
  return 0;
}
