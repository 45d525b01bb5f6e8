#include "inventory/numbering.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace berth::inventory {

namespace {

/// Whether address `a` comes before `b`. Domains have at least four digits, so a longer address is
/// larger. Devices that are not on PCI come last.
bool address_before(const std::string& a, const std::string& b) {
  if (a.empty() != b.empty()) return b.empty();
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

bool device_before(const model::Device& a, const model::Device& b) {
  if (a.kind != b.kind) return a.kind < b.kind;
  if (a.vendor != b.vendor) return a.vendor < b.vendor;
  if (a.pci_address != b.pci_address) return address_before(a.pci_address, b.pci_address);
  return a.vendor_index < b.vendor_index;
}

}  // namespace

void number_devices(std::vector<model::Device>& devices,
                    std::vector<model::DeviceProcess>& processes) {
  std::vector<std::size_t> order(devices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return device_before(devices[a], devices[b]);
  });
  std::vector<model::Device> sorted;
  sorted.reserve(devices.size());
  std::vector<int> number_of(devices.size(), -1);
  for (const std::size_t position : order) {
    number_of[position] = static_cast<int>(sorted.size());
    sorted.push_back(std::move(devices[position]));
    sorted.back().index = number_of[position];
  }
  devices = std::move(sorted);
  for (model::DeviceProcess& process : processes) {
    const auto position = static_cast<std::size_t>(process.device);
    process.device = position < number_of.size() ? number_of[position] : -1;
  }
}

void sort_processes(std::vector<model::DeviceProcess>& processes) {
  const auto key = [](const model::DeviceProcess& process) {
    const std::uint64_t memory = process.memory_bytes.value_or(0);
    return std::tuple(process.device, !process.memory_bytes, ~memory, process.host_pid,
                      process.pid);
  };
  // Rows are large, so sort indices and move each row once.
  std::vector<std::size_t> order(processes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple_cat(key(processes[a]), std::tuple(a)) <
           std::tuple_cat(key(processes[b]), std::tuple(b));
  });
  std::vector<model::DeviceProcess> sorted;
  sorted.reserve(processes.size());
  for (const std::size_t position : order) sorted.push_back(std::move(processes[position]));
  processes = std::move(sorted);
}

}  // namespace berth::inventory
