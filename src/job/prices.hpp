// The prices that a job's report and `berth usage` use, read from a file.
#pragma once

#include "base/result.hpp"
#include "model/prices.hpp"

namespace berth::job {

/// Reads the first of these files that is there: the user's own ($XDG_CONFIG_HOME or ~/.config,
/// then /berth/prices.toml), and /etc/berth/prices.toml. Without one, there are no prices. Fails as
/// model::parse_usage_prices and, if a file is there and cannot be read, as read_file.
[[nodiscard]] Result<model::UsagePrices> read_prices();

}  // namespace berth::job
