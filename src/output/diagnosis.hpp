// Prints a diagnosis for people and as JSON.
#pragma once

#include <string>

#include "model/diagnosis.hpp"
#include "model/diagnosis_parts.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// Prints the verdict in one line, up to three findings in full, one line for each other finding,
/// and the rules that could not be checked. With `all`, every finding is printed in full.
[[nodiscard]] std::string diagnosis_text(const model::Diagnosis& diagnosis,
                                         const Terminal& terminal, bool all = false,
                                         const model::DiagnosisParts& parts = {});
/// The diagnosis as
/// {"schema":1,"verdict","findings":[…],"not_checked":[…],"checked":[…],"command","probe","error"}.
/// Root causes come first.
[[nodiscard]] std::string diagnosis_json(const model::Diagnosis& diagnosis,
                                         const model::DiagnosisParts& parts = {});

}  // namespace berth::output
