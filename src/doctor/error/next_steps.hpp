// Suggests what to do about a known message that no finding explains.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "model/diagnosis.hpp"

namespace berth::doctor {

/// A row of data/error_texts.toml.
struct NextStep {
  std::string_view message;  // the name of a known message
  const char* command;       // command to run; "" if no command helps
  const char* says;          // msgid
};
[[nodiscard]] std::span<const NextStep> known_steps();

/// The steps for a message, translated; never empty, the best step first. `rules` are the rules
/// that can explain the message. "" or "DRV05 …": the message is about the machine. "SRC34 …": it
/// is about a line in a source file.
[[nodiscard]] std::vector<model::Fix> next_steps(std::string_view message, std::string_view rules);

}  // namespace berth::doctor
