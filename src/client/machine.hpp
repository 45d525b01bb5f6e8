// The machine as the broker sees it: for who may not look at the devices themselves, because the
// kernel lets only jobs open them.
#pragma once

#include "base/result.hpp"
#include "client/client.hpp"
#include "model/snapshot.hpp"

namespace berth::client {

/// Devices and driver of an answer to GET /v1/machine; processes are not told. Fails with
/// kUnavailable (E0922) where it is none.
[[nodiscard]] Result<model::Snapshot> machine_in(const Response& response);

}  // namespace berth::client
