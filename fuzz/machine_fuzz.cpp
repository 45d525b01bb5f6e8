// Machine files, --fault and --attach: any input must yield a machine or an error with an id, and
// an accepted machine must produce a valid state.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/text_parts.hpp"
#include "sim/machine.hpp"
#include "sim/machine_check.hpp"
#include "sim/options.hpp"
#include "sim/state.hpp"
#include "wire/sim_load.hpp"

namespace {

namespace sim = berth::sim;
namespace wire = berth::wire::sim;

void read_every_device(const wire::View& view) {
  for (std::uint32_t i = 0; i < view.state().devices; ++i) {
    const wire::Moment at(view, i, 30 * wire::kSecond);
    const wire::Device& d = at.device();
    BERTH_CHECK(at.utilization() <= 100 && at.power() <= d.power_limit && at.fan_percent() <= 100);
    BERTH_CHECK(at.memory_used() + d.memory_reserved <= d.memory_total);
    BERTH_CHECK(at.energy() >= d.energy_base);
  }
}

void read_words(std::string_view line) {
  const auto fault = sim::parse_fault(line, 8);
  BERTH_CHECK(fault || fault.error().id == "E0607");
  const auto attached = sim::parse_attached(line, 8);
  BERTH_CHECK(attached || attached.error().id == "E0608");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const std::string_view line : berth::split(text.substr(0, 256), '\n')) read_words(line);
  const auto machine = sim::parse_machine(text, "fuzz.toml");
  if (!machine) {
    const berth::Error& error = machine.error();
    BERTH_CHECK(error.code == berth::ErrorCode::kInvalidArgument && error.id.substr(0, 3) == "E06");
    BERTH_CHECK(berth::printable(error.message) == error.message);
    return 0;
  }
  sim::Options options;
  options.processes = 3;
  const auto processes = sim::plan_processes(*machine, options);
  if (!processes) return 0;
  const std::string state = sim::build_state(*machine, options, *processes, {}, 413);
  const auto* bytes = reinterpret_cast<const wire::State*>(state.data());
  BERTH_CHECK(wire::valid(bytes, state.size()));
  read_every_device(wire::View(bytes, nullptr));
  return 0;
}
