#include "output/error.hpp"

#include <algorithm>

#include "base/json.hpp"
#include "base/text.hpp"

namespace berth::output {
namespace {

/// The name of the error's code in JSON. The error E0008 (output not writable) has the too general
/// code kUnsupported, so its id decides.
std::string_view code_of(const Error& error) {
  return error.id == "E0008" ? "output_failed" : name(error.code);
}

}  // namespace

std::string show_error(const Error& error, const Terminal& terminal) {
  // Put the id at the end of the first line, because the lines after it contain the cause.
  const auto end = std::min(error.message.find('\n'), error.message.size());
  const std::string id = error.id.empty() ? "" : " (" + error.id + ")";
  std::string out =
      terminal.paint(Style::kRed, text("error: {}", error.message.substr(0, end) + id)) +
      error.message.substr(end) + "\n";
  if (!error.hint.empty()) {
    // Indents the second and later lines of the hint like the first one.
    const int indent = display_width(text("hint: {}", ""));
    std::string hint = error.hint;
    for (auto at = hint.find('\n'); at != std::string::npos; at = hint.find('\n', at + 1))
      hint.insert(at + 1, static_cast<std::size_t>(indent), ' ');
    out += "\n" + text("hint: {}", hint) + "\n";
  }
  return terminal.spell(std::move(out));
}

std::string error_json(const Error& error, int exit_code) {
  const auto nullable = [](const std::string& text) {
    return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text);
  };
  nlohmann::ordered_json document{{"schema", 1},
                                  {"error",
                                   {{"id", nullable(error.id)},
                                    {"code", code_of(error)},
                                    {"message", error.message},
                                    {"hint", nullable(error.hint)},
                                    {"exit_code", exit_code}}}};
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace berth::output
