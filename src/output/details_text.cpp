// `berth ls --details`: prints all fields. A reading is formatted according to the unit in its key,
// so a new reading appears here automatically. Its label is the key, unless kLabels has a label for
// it.
#include <algorithm>
#include <array>
#include <map>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "model/device_selector.hpp"
#include "model/device_use.hpp"
#include "output/header.hpp"
#include "output/screens.hpp"
#include "output/word_table.hpp"
#include "output/words.hpp"

namespace berth::output {
namespace {

using model::Device;

constexpr std::array kLabels{
    Word{"memory_total_bytes", msgid("memory")},
    Word{"memory_used_bytes", msgid("memory used")},
    Word{"memory_reserved_bytes", msgid("memory kept by the driver")},
    Word{"utilization_percent", msgid("utilization")},
    Word{"memory_utilization_percent", msgid("memory controller busy")},
    Word{"encoder_utilization_percent", msgid("encoder")},
    Word{"decoder_utilization_percent", msgid("decoder")},
    Word{"sm_active_percent", msgid("SM active")},
    Word{"tensor_active_percent", msgid("tensor cores active")},
    Word{"dram_active_percent", msgid("memory bandwidth used")},
    Word{"temperature_celsius", msgid("temperature")},
    Word{"power_milliwatts", msgid("power")},
    Word{"power_limit_milliwatts", msgid("power limit")},
    Word{"energy_millijoules", msgid("energy since the driver was loaded")},
    Word{"fan_percent", msgid("fan")},
    Word{"clock_graphics_mhz", msgid("graphics clock")},
    Word{"clock_graphics_max_mhz", msgid("graphics clock, highest")},
    Word{"clock_sm_mhz", msgid("SM clock")},
    Word{"clock_memory_mhz", msgid("memory clock")},
    Word{"clock_memory_max_mhz", msgid("memory clock, highest")},
    Word{"pcie_generation", msgid("PCIe generation")},
    Word{"pcie_generation_max", msgid("PCIe generation, highest")},
    Word{"pcie_width", msgid("PCIe lanes")},
    Word{"pcie_width_max", msgid("PCIe lanes, most")},
    Word{"pcie_rx_bytes_per_second", msgid("PCIe received")},
    Word{"pcie_tx_bytes_per_second", msgid("PCIe sent")},
    Word{"nvlink_links", msgid("NVLinks active")},
    Word{"nvlink_links_max", msgid("NVLinks")},
    Word{"nvlink_rx_bytes_per_second", msgid("NVLink received")},
    Word{"nvlink_tx_bytes_per_second", msgid("NVLink sent")},
    Word{"performance_state", msgid("performance state")},
    Word{"ecc_corrected", msgid("memory errors corrected")},
    Word{"ecc_uncorrected", msgid("memory errors not corrected")},
    Word{"remapped_rows", msgid("memory rows repaired")},
    Word{"remap_pending", msgid("memory repairs waiting for a reset")},
    Word{"remap_failed", msgid("memory repairs that failed")},
};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

std::string show_value(std::string_view key, std::uint64_t value) {
  if (ends_with(key, "_bytes_per_second")) return show_bytes(value) + "/s";
  if (ends_with(key, "_bytes")) return show_bytes(value);
  if (ends_with(key, "_milliwatts")) return show_power(value);
  if (ends_with(key, "_millijoules"))
    return fmt::format("{:.1f} Wh", static_cast<double>(value) / 3'600'000.0);
  if (ends_with(key, "_mhz")) return fmt::format("{} MHz", value);
  return std::to_string(value);
}

std::string show_value(std::string_view key, double value) {
  if (ends_with(key, "_percent")) return fmt::format("{:.0f} %", value);
  if (ends_with(key, "_celsius")) return fmt::format("{:.0f} °C", value);
  return fmt::format("{:g}", value);
}

std::string_view label_of(std::string_view key) {
  const Word* word = find(kLabels, key);
  return word == nullptr ? key : tr(word->says);
}

std::string yes_no(bool value) {
  return std::string(value ? tr("yes") : tr("no"));
}

/// Collects lines of the form "label   value", with aligned values.
class Sheet {
 public:
  void line(std::string_view label, std::string value, bool absent = false) {
    rows_.push_back({std::string(label), std::move(value), absent});
  }
  /// Adds a line, unless the value is empty. An empty value means that this kind of device does not
  /// have it.
  void fact(std::string_view label, std::string_view value) {
    if (!value.empty()) line(label, printable(value));
  }
  [[nodiscard]] std::string render(const Terminal& terminal) const {
    int width = 0;
    for (const Row& row : rows_) width = std::max(width, display_width(row.label));
    std::string out;
    for (const Row& row : rows_) {
      const std::string label = "   " + pad(row.label, width + 3);
      out += labelled(label, row.value, display_width(label), terminal,
                      row.absent ? Style::kDim : Style::kPlain);
    }
    return out;
  }

 private:
  struct Row {
    std::string label, value;
    bool absent;
  };
  std::vector<Row> rows_;
};

void add_identity(Sheet& sheet, const Device& device) {
  sheet.fact(tr("kind"), word_for(device.kind));
  sheet.fact(tr("vendor"), device.vendor_name);
  sheet.fact("uuid", device.uuid);
  if (!device.pci_address.empty())
    sheet.line("PCI", printable(device.pci_address) +
                          (device.pci_id ? fmt::format(" ({:04x}:{:04x})", *device.pci_id >> 16U,
                                                       *device.pci_id & 0xFFFFU)
                                         : ""));
  if (device.vendor_index)
    sheet.line(tr("the driver's index"), std::to_string(*device.vendor_index));
  if (device.minor_number) sheet.line(tr("minor number"), std::to_string(*device.minor_number));
  sheet.fact(tr("kernel driver"), device.kernel_driver);
  sheet.fact(tr("architecture"), device.architecture);
  sheet.fact(tr("compute capability"), device.compute_capability);
  if (device.numa_node) sheet.line(tr("NUMA node"), std::to_string(*device.numa_node));
  sheet.fact(tr("cores nearby"), device.local_cpus);
  sheet.fact(tr("compute mode"), mode_words(device.compute_mode));
  if (device.persistence_mode) sheet.line(tr("persistence mode"), yes_no(*device.persistence_mode));
  if (device.mig_enabled) sheet.line("MIG", yes_no(*device.mig_enabled));
  if (device.memory_unified) sheet.line(tr("uses the host's memory"), yes_no(true));
  if (!device.managed && !model::out_of_reach(device))
    sheet.line(tr("managed by Berth"), yes_no(false));
}

void add_health(Sheet& sheet, const Device& device) {
  const std::string why = health_words(device);
  sheet.line(tr("health"), std::string(word_for(device.health)) + (why.empty() ? "" : ": " + why));
  std::vector<std::string> reasons;
  for (const std::string& id : device.throttle_reasons) reasons.push_back(reason_words(id));
  sheet.fact(tr("clocks throttled by"), join(reasons, ", "));
  if (device.age_seconds) sheet.line(tr("age of the readings"), show_age(*device.age_seconds));
  sheet.fact(tr("note"), device.note);
}

/// Adds all readings. Absent readings are listed below the others, with one line per reason.
void add_readings(Sheet& sheet, const Device& device) {
  std::map<model::Absence, std::vector<std::string>> absent;
  model::for_each_reading(device.readings, [&](std::string_view key, const auto& reading) {
    if (reading)
      sheet.line(label_of(key), show_value(key, *reading));
    else
      absent[reading.why].emplace_back(label_of(key));
  });
  for (const auto& [why, labels] : absent) sheet.line(word_for(why), join(labels, "; "), true);
}

void add_partitions(Sheet& sheet, const Device& device) {
  for (const model::Partition& part : device.partitions)
    sheet.line(text("partition {}", model::unit_name(device, part.uuid)),
               fmt::format("{}, {}, {}", printable(part.name),
                           show_used(part.memory_used_bytes, part.memory_total_bytes),
                           printable(part.uuid)));
}

}  // namespace

std::string details_text(const model::Snapshot& snapshot, const Terminal& terminal) {
  std::string out = header(snapshot, terminal) + driver_problem(snapshot, terminal);
  const auto uses = uses_of(snapshot);
  for (const Device& device : snapshot.devices) {
    const std::string name = device.name.empty() ? short_name(device) : printable(device.name);
    out += "\n" + terminal.paint(Style::kBold, fmt::format("{:<2} {}", device.index, name)) + "\n";
    Sheet sheet;
    add_identity(sheet, device);
    add_health(sheet, device);
    add_readings(sheet, device);
    add_partitions(sheet, device);
    if (const auto use = uses.find(device.index); use != uses.end())
      sheet.line(tr("users"), show_users(use->second));
    out += sheet.render(terminal);
  }
  return terminal.spell(std::move(out));
}

}  // namespace berth::output
