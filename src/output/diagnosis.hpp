// A diagnosis as a person and as a program read it.
#pragma once

#include <string>

#include "model/diagnosis.hpp"
#include "model/diagnosis_parts.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// The verdict in one line; at most three findings in full; the rest a line each; what was not
/// checked. `all`: every finding in full.
[[nodiscard]] std::string diagnosis_text(const model::Diagnosis& diagnosis,
                                         const Terminal& terminal, bool all = false,
                                         const model::DiagnosisParts& parts = {});
/// {"schema":1,"verdict","findings":[…],"not_checked":[…],"checked":[…],"command","probe","error"},
/// root cause first.
[[nodiscard]] std::string diagnosis_json(const model::Diagnosis& diagnosis,
                                         const model::DiagnosisParts& parts = {});

}  // namespace berth::output
