// The prices that a job's report and `berth usage` use, read from a file.
#pragma once

#include "base/result.hpp"
#include "model/prices.hpp"

namespace berth::job {

/// Reads the user's own file ($XDG_CONFIG_HOME or ~/.config, then /berth/prices.toml). If there is
/// none, reads /etc/berth/prices.toml. If both are missing, there are no prices. Fails with the
/// errors of model::parse_usage_prices() and, if a file exists but cannot be read, of read_file().
[[nodiscard]] Result<model::UsagePrices> read_prices();

}  // namespace berth::job
