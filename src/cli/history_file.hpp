// Opens the history of devices, for the verbs that read it.
#pragma once

#include "base/result.hpp"
#include "watch/history.hpp"

namespace berth::cli {

/// Opens the history of this user's broker or, if there is none, of the system broker. Fails as
/// HistoryReader::open.
[[nodiscard]] Result<watch::HistoryReader> open_history();

}  // namespace berth::cli
