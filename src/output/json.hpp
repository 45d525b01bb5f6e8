// The records of `ls`, `ps` and `berth` as JSON documents (docs/json.md lists every key). Absent is
// null, units are in the keys, and what is not UTF-8 was made so.
#pragma once

#include <string>
#include <vector>

#include "model/snapshot.hpp"
#include "output/overview.hpp"

namespace berth::output {

[[nodiscard]] std::string ls_json(const model::Snapshot& snapshot);
[[nodiscard]] std::string ps_json(const model::Snapshot& snapshot);
[[nodiscard]] std::string overview_json(const model::Snapshot& snapshot,
                                        const std::vector<NextStep>& next);

}  // namespace berth::output
