// Reads and writes NAME.machine files: a written machine must be read back unchanged.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "doctor/tree/recorded_machine.hpp"
#include "doctor/tree/tree.hpp"

namespace doctor = berth::doctor;

namespace {

void look(const doctor::Tree& tree, const std::string& folder, int depth) {
  const auto names = tree.list(folder, 20);
  if (!names || depth > 6) return;
  for (const std::string& name : *names) {
    const std::string path = folder + name;
    static_cast<void>(tree.read(path, 4096));
    static_cast<void>(tree.read_end(path, 10));
    static_cast<void>(tree.link(path));
    if (const auto real = tree.resolve(path)) BERTH_CHECK(real->starts_with('/'));
    if (const auto file = tree.open_file(path)) {
      std::uint64_t word = 0;
      static_cast<void>(file->read_at(0, &word, sizeof word));
      static_cast<void>(file->read_at(1ULL << 60, &word, sizeof word));
    }
    if (const auto node = tree.node(path); node && node->type == doctor::NodeType::kFolder)
      look(tree, path + "/", depth + 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto machine = doctor::parse_machine(text, "/nonexistent/fuzzed.machine");
  if (!machine) return 0;
  const std::string written = doctor::machine_to_text(*machine);
  const auto again = doctor::parse_machine(written, "again.machine");
  BERTH_CHECK(again.has_value());
  BERTH_CHECK(doctor::machine_to_text(*again) == written);
  doctor::Tree tree(std::move(machine->files), "fuzzed.machine");
  for (const auto& [path, special] : machine->specials) tree.add_special(path, special);
  look(tree, "/", 0);
  return 0;
}
