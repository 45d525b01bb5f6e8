// Prints the parts of a diagnosis besides the findings: the examined command, the run with --deep,
// and known messages in a pasted error.
#pragma once

#include <string>

#include "model/diagnosis.hpp"
#include "model/diagnosis_parts.hpp"
#include "output/json_writer.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// A label, with text that is wrapped to the right of it.
[[nodiscard]] std::string folded(std::string_view label, const std::string& what, int column,
                                 const Terminal& terminal);

/// The functions below return "" if there is nothing to print.
[[nodiscard]] std::string command_text(const model::DiagnosisParts& parts,
                                       const Terminal& terminal);
[[nodiscard]] std::string probe_text(const model::DiagnosisParts& parts, const Terminal& terminal);
[[nodiscard]] std::string error_text(const model::DiagnosisParts& parts,
                                     const model::Diagnosis& diagnosis, const Terminal& terminal);

/// The Python that was examined; "" if it is that of a given command.
[[nodiscard]] std::string python_text(const model::DiagnosisParts& parts, const Terminal& terminal);

/// Adds the keys "python", "command", "probe", "error" and "inventory". A part that was not
/// requested is null.
void add_parts(JsonWriter& json, const model::DiagnosisParts& parts);

}  // namespace berth::output
