// The machine files inside the program, from simulator/machines, with one symbol each.
#include "base/file.hpp"
#include "base/spelling.hpp"
#include "base/text.hpp"
#include "sim/machine.hpp"

#define BERTH_MACHINE(name, symbol)        \
  extern "C" const unsigned char symbol[]; \
  extern "C" const unsigned char symbol##_end[];
#include "sim/built_in_machines.inc"
#undef BERTH_MACHINE

namespace berth::sim {
namespace {

std::string_view bytes_between(const unsigned char* begin, const unsigned char* end) {
  return {reinterpret_cast<const char*>(begin), static_cast<std::size_t>(end - begin)};
}

bool is_file(const std::string& name) {
  constexpr std::string_view kEnding = ".toml";
  return name.find('/') != std::string::npos ||
         (name.size() > kEnding.size() &&
          name.compare(name.size() - kEnding.size(), kEnding.size(), kEnding) == 0);
}

}  // namespace

const std::vector<BuiltIn>& built_in_machines() {
  static const std::vector<BuiltIn> machines{
#define BERTH_MACHINE(name, symbol) {name, bytes_between(symbol, symbol##_end)},
#include "sim/built_in_machines.inc"
#undef BERTH_MACHINE
  };
  return machines;
}

Result<Machine> load_machine(const std::string& name_or_file) {
  if (is_file(name_or_file)) {
    auto text = read_file(name_or_file);
    if (text) return parse_machine(*text, printable(name_or_file));
    return Error{ErrorCode::kInvalidArgument, "E0601", text.error().message, "berth sim --list"};
  }
  std::vector<std::string> known;
  for (const BuiltIn& machine : built_in_machines()) {
    if (machine.name == name_or_file) return parse_machine(machine.text, name_or_file + ".toml");
    // Do not suggest "none" for a misspelled name, because it is very unlikely that the user means
    // it.
    if (machine.name != "none") known.emplace_back(machine.name);
  }
  const std::string near = nearest(name_or_file, known);
  return Error{ErrorCode::kInvalidArgument, "E0601",
               text("there is no machine '{}'", printable(name_or_file)),
               (near.empty() ? "" : text("did you mean {}?", near) + "   ") + "berth sim --list"};
}

}  // namespace berth::sim
