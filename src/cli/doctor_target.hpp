// What `berth doctor` is asked about: options turned into sources of facts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/verb.hpp"
#include "doctor/collect.hpp"
#include "model/diagnosis_parts.hpp"

namespace berth::cli {

/// This machine, a process or a bundle, with the Python and the command that the options name, what
/// a pasted error says, and what was tried (--deep).
struct DoctorTarget {
  doctor::Sources sources;
  std::optional<model::CommandSeen> command;
};
[[nodiscard]] Result<DoctorTarget> doctor_target(const Context& context);

/// Options that exclude each other. Fails with E0808, E0821.
[[nodiscard]] Status check_doctor_options(const Context& context);

/// What --error names, read; absent where it was not given. Fails with E0820.
[[nodiscard]] Result<doctor::Fact<std::vector<doctor::Recognised>>> pasted_error(
    const Context& context);

/// The interpreter that parses files: the target's; "python3" where it has none that can be run.
[[nodiscard]] Result<std::string> parsing_python(const Context& context);

}  // namespace berth::cli
