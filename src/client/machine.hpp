// The machine as the broker reads it, for users who cannot read the devices themselves because the
// kernel allows only jobs to open them.
#pragma once

#include "base/result.hpp"
#include "client/client.hpp"
#include "model/snapshot.hpp"

namespace berth::client {

/// Devices and driver from the answer to GET /v1/machine; it contains no processes. Fails with
/// kUnavailable (E1140) if the answer has another form.
[[nodiscard]] Result<model::Snapshot> machine_in(const Response& response);

}  // namespace berth::client
