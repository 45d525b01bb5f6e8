// The units that are set aside, as a value in the journal.
#pragma once

#include <string>
#include <vector>

#include "model/ledger.hpp"

namespace berth::serve {

[[nodiscard]] std::string aside_record(const std::vector<model::AsideUnit>& aside);
/// Empty if the record is damaged.
[[nodiscard]] std::vector<model::AsideUnit> aside_in(const std::string& record);

}  // namespace berth::serve
