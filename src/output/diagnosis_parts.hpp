// The parts of a diagnosis other than its findings: the inspected command, the probe, and known
// messages in a pasted error.
#pragma once

#include <string>

#include "model/diagnosis.hpp"
#include "model/diagnosis_parts.hpp"
#include "output/json_writer.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// A label, followed by text that is wrapped beside it.
[[nodiscard]] std::string folded(std::string_view label, const std::string& what, int column,
                                 const Terminal& terminal);

/// Each text is "" if there is nothing to print.
[[nodiscard]] std::string command_text(const model::DiagnosisParts& parts,
                                       const Terminal& terminal);
[[nodiscard]] std::string probe_text(const model::DiagnosisParts& parts, const Terminal& terminal);
[[nodiscard]] std::string error_text(const model::DiagnosisParts& parts,
                                     const model::Diagnosis& diagnosis, const Terminal& terminal);

/// Which Python was inspected; "" if a command determines it.
[[nodiscard]] std::string python_text(const model::DiagnosisParts& parts, const Terminal& terminal);

/// The keys "python", "command", "probe", "error" and "inventory"; null if not requested.
void add_parts(JsonWriter& json, const model::DiagnosisParts& parts);

}  // namespace berth::output
