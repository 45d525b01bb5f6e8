// Writes a bundle: what was looked at, without what must not be told.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "doctor/collect.hpp"

namespace berth::doctor {

/// Looks at everything in `sources` and writes it to `folder`, which must be new or empty. Returns
/// what was left out or replaced, a sentence each. Fails with E0804.
[[nodiscard]] Result<std::vector<std::string>> record(Sources& sources, const std::string& folder);

}  // namespace berth::doctor
