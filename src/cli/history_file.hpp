// Opens the history of devices, for the verbs that read it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "watch/history.hpp"

namespace berth::cli {

/// Opens the history of this user's broker or, if there is none, of the system broker. Fails with
/// the errors of HistoryReader::open().
[[nodiscard]] Result<watch::HistoryReader> open_history();

/// Returns the error E0986 for a verb that found no records since `from` (Unix seconds). If the
/// history has readings, the message is `what`. If they are earlier than `from`, the hint is a
/// command with a --since that includes them.
[[nodiscard]] Error nothing_kept(const watch::HistoryReader& reader, std::int64_t from,
                                 std::int64_t now, const std::string& what,
                                 const std::string& verb);

}  // namespace berth::cli
