// Turns the options of `berth doctor` into sources of facts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/verb.hpp"
#include "doctor/read/collect.hpp"
#include "model/diagnosis_parts.hpp"

namespace berth::cli {

/// What to examine: this machine, a process or a bundle; the Python and the command that the
/// options name; a pasted error; and the results of --deep.
struct DoctorTarget {
  doctor::Sources sources;
  std::optional<model::CommandSeen> command;
};
[[nodiscard]] Result<DoctorTarget> doctor_target(const Context& context);

/// Rejects options that exclude each other. Fails with E0808, E0821.
[[nodiscard]] Status check_doctor_options(const Context& context);

/// Reads the text that --error names; absent without this option. Fails with E0820.
[[nodiscard]] Result<doctor::Fact<std::vector<doctor::Recognised>>> pasted_error(
    const Context& context);

/// The interpreter that parses source files: the examined Python, or "python3" if it cannot be
/// executed.
[[nodiscard]] Result<std::string> parsing_python(const Context& context);

}  // namespace berth::cli
