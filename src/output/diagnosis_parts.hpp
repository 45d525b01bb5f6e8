// What a diagnosis says beside its findings: the command that was looked at, what was tried, and
// what is known in a pasted error.
#pragma once

#include <string>

#include "model/diagnosis.hpp"
#include "model/diagnosis_parts.hpp"
#include "output/json_writer.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// A label and text folded beside it.
[[nodiscard]] std::string folded(std::string_view label, const std::string& what, int column,
                                 const Terminal& terminal);

/// Each is "" where there is nothing to say.
[[nodiscard]] std::string command_text(const model::DiagnosisParts& parts,
                                       const Terminal& terminal);
[[nodiscard]] std::string probe_text(const model::DiagnosisParts& parts, const Terminal& terminal);
[[nodiscard]] std::string error_text(const model::DiagnosisParts& parts,
                                     const model::Diagnosis& diagnosis, const Terminal& terminal);

/// Which Python was looked at; not where a command says it.
[[nodiscard]] std::string python_text(const model::DiagnosisParts& parts, const Terminal& terminal);

/// The keys "python", "command", "probe" and "error"; null where nobody asked.
void add_parts(JsonWriter& json, const model::DiagnosisParts& parts);

}  // namespace berth::output
