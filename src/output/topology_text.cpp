#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "model/topology.hpp"
#include "output/header.hpp"
#include "output/screens.hpp"
#include "output/table.hpp"
#include "output/words.hpp"

namespace berth::output {
namespace {

using model::Device;

std::string gpu_name(const Device& device) {
  return "GPU" + std::to_string(device.index);
}

/// Explains each code in the table once.
std::string legend(const std::vector<const Device*>& devices, const Terminal& terminal) {
  std::set<model::DeviceLink> links;
  for (const Device* one : devices)
    for (const Device* other : devices)
      if (one != other) links.insert(model::link_between(*one, *other));
  std::string out;
  for (const model::DeviceLink& link : links)
    out += labelled(link.code(), model::words(link), 6, terminal);
  return out;
}

}  // namespace

std::string topology_text(const model::Snapshot& snapshot, const Terminal& terminal) {
  std::vector<const Device*> devices;
  for (const Device& device : snapshot.devices)
    if (device.kind == model::DeviceKind::kGpu && !device.pci_address.empty())
      devices.push_back(&device);
  std::string out = header(snapshot, terminal) + driver_problem(snapshot, terminal) + "\n";
  if (devices.empty()) return terminal.spell(out + text("no GPU on the PCI bus") + "\n");
  std::vector<Column> columns{{""}};
  for (const Device* device : devices) columns.push_back({gpu_name(*device)});
  columns.push_back({"NUMA", true, 0, 2});
  columns.push_back({std::string(tr("cores nearby")), false, 0, 1});
  Table table(columns);
  for (const Device* one : devices) {
    std::vector<Cell> row{Cell(gpu_name(*one), Style::kBold)};
    for (const Device* other : devices) {
      const model::DeviceLink link = model::link_between(*one, *other);
      row.emplace_back(link.code(), one == other ? Style::kDim : Style::kPlain);
    }
    row.emplace_back(one->numa_node ? std::to_string(*one->numa_node) : "-");
    row.emplace_back(one->local_cpus);
    table.add(std::move(row));
  }
  out += table.render(terminal);
  if (devices.size() > 1) out += "\n" + legend(devices, terminal);
  const auto amd = std::count_if(devices.begin(), devices.end(), [](const Device* one) {
    return one->vendor == model::Vendor::kAmd;
  });
  if (amd > 1)
    out +=
        labelled("", text("note: {}", text("AMD's XGMI links are not read, so they are not shown")),
                 0, terminal);
  return terminal.spell(std::move(out));
}

}  // namespace berth::output
