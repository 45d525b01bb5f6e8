// What people paste and type, and what a probed program prints: errors, commands, scripts, answers.
// The first byte selects the parser.
#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "base/text_parts.hpp"
#include "doctor/error/error_text.hpp"
#include "doctor/read/bundle_json.hpp"
#include "doctor/read/command.hpp"
#include "doctor/read/command_words.hpp"
#include "doctor/read/probe.hpp"
#include "doctor/tree/tree.hpp"

namespace doctor = berth::doctor;

namespace {

void read_error(std::string_view text) {
  for (const doctor::Recognised& one : doctor::read_error_text(text)) {
    BERTH_CHECK(one.line >= 1 && !one.means.empty());
    BERTH_CHECK(berth::printable(one.text) == one.text);
  }
}

/// Follows a command in a tree without files, so only the words themselves and those of `sh -c` are
/// parsed.
void follow(std::string_view text) {
  static const doctor::Tree machine("/");
  std::vector<std::string> words{"/bin/sh", "-c", std::string(text)};
  static_cast<void>(doctor::resolve_command(machine, {}, "/", words));
  words.clear();
  for (const std::string_view word : berth::split(text, '\n')) words.emplace_back(word);
  static_cast<void>(doctor::resolve_command(machine, {}, "/", words));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      read_error(rest);
      break;
    case 1:
      follow(rest);
      break;
    case 2:
      static_cast<void>(doctor::answer_from("torch", rest, data[0] - 128, true, rest));
      break;
    default:
      static_cast<void>(doctor::probe_from_json(rest, "probe.json"));
  }
  return 0;
}
