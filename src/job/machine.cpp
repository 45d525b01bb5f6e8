#include "job/machine.hpp"

#include <poll.h>

#include <algorithm>

#include "client/machine.hpp"
#include "inventory/observe.hpp"
#include "model/device_use.hpp"

namespace berth::job {
namespace {

/// If the kernel lets only jobs open GPUs, Berth sees no GPU, so it asks the broker which GPUs
/// exist.
void ask_the_broker(model::Snapshot& seen) {
  const auto gpus = [](const model::Snapshot& of) {
    return std::count_if(of.devices.begin(), of.devices.end(), model::is_gpu);
  };
  if (gpus(seen) > 0 && seen.driver.state != "error" && seen.driver.state != "no answer") return;
  auto client = client::broker_here(client::IfNone::kGlance);
  if (!client) return;
  // The broker has answered a ping. Wait longer for this answer, because a driver may take half a
  // minute to start.
  constexpr std::chrono::milliseconds kGlance(2000);
  const auto answer = client->call("GET", "/v1/machine", {}, kGlance);
  if (!answer) return;
  auto told = client::machine_in(*answer);
  if (!told || gpus(*told) <= gpus(seen)) return;
  seen.devices = std::move(told->devices);
  seen.driver = std::move(told->driver);
  seen.processes = std::move(told->processes);
  seen.unattributed = std::move(told->unattributed);
}

}  // namespace

model::Snapshot ThisMachine::look(bool details) {
  inventory::Options options;
  options.process_details = details;
  options.holders = details;
  if (!opencl_) options.opencl = inventory::OpenCl::kNever;
  options.on_slow = [&](std::string_view sentence) { note_(std::string(sentence), {}); };
  auto seen = inventory::observe(inventory::Sources::from_environment(), options);
  ask_the_broker(seen);
  return seen;
}

Result<model::Ledger> ThisMachine::ledger() {
  return client::ledger_now();
}

Result<std::optional<client::Lease>> ThisMachine::lease_around(const model::Request& request) {
  return client::Lease::around_us(request);
}

Result<client::Lease> ThisMachine::take_lease(const client::Lease::Wishes& wishes,
                                              const model::Snapshot& snapshot,
                                              client::IfNone if_none) {
  return client::Lease::take(wishes, snapshot, if_none);
}

void ThisMachine::pause(std::chrono::milliseconds duration) {
  ::poll(nullptr, 0, static_cast<int>(duration.count()));
}

}  // namespace berth::job
