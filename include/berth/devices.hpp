// Lists the devices of this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "error.hpp"
#include "library.hpp"

namespace berth {

/// A device as in `berth ls --json`. A value that is not known is absent and never 0.
struct Device {
  int index = 0;
  std::string kind, vendor, health;
  std::optional<std::string> name, uuid, compute_capability;
  std::optional<std::int64_t> memory_total_bytes, memory_used_bytes, power_milliwatts;
  std::optional<double> utilization_percent, temperature_celsius;
  std::vector<std::string> users;

  [[nodiscard]] bool is_gpu() const { return kind == "gpu"; }
  [[nodiscard]] std::optional<std::int64_t> memory_free_bytes() const {
    if (!memory_total_bytes || !memory_used_bytes) return std::nullopt;
    return *memory_total_bytes - *memory_used_bytes;
  }
};

/// All devices of this machine, GPUs first, the CPU last.
inline Result<std::vector<Device>> try_devices() {
  auto seen = detail::document({"ls"});
  if (!seen) return seen.error();
  std::vector<Device> all;
  for (const std::string& at : seen->elements("/devices")) {
    Device one;
    one.index = static_cast<int>(seen->integer(at + "/index").value_or(-1));
    one.kind = seen->text(at + "/kind").value_or("");
    one.vendor = seen->text(at + "/vendor").value_or("");
    one.health = seen->text(at + "/health").value_or("");
    one.name = seen->text(at + "/name");
    one.uuid = seen->text(at + "/uuid");
    one.compute_capability = seen->text(at + "/compute_capability");
    one.memory_total_bytes = seen->integer(at + "/memory_total_bytes");
    one.memory_used_bytes = seen->integer(at + "/memory_used_bytes");
    one.power_milliwatts = seen->integer(at + "/power_milliwatts");
    one.utilization_percent = seen->number(at + "/utilization_percent");
    one.temperature_celsius = seen->number(at + "/temperature_celsius");
    for (const std::string& user : seen->elements(at + "/users"))
      if (auto name = seen->text(user)) one.users.push_back(*std::move(name));
    all.push_back(std::move(one));
  }
  return all;
}

#if defined(__cpp_exceptions)
inline std::vector<Device> devices() {
  return detail::value_or_throw(try_devices());
}
#endif

}  // namespace berth
