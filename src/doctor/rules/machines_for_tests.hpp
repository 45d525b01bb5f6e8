// Helpers for the tests of rules: they build machines and run rules on them.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "doctor/rules/diagnose.hpp"

namespace berth::doctor::tests {

/// A GPU on the bus that is bound to a driver.
inline PciFunction card(const char* address, std::uint32_t vendor, std::uint32_t device,
                        const char* driver) {
  PciFunction one;
  one.address = address;
  one.vendor = vendor;
  one.device = device;
  one.class_code = 0x030000;
  one.driver = std::string(driver);
  return one;
}

/// A machine with one RTX 4090, its driver, and Python 3.11 in /venv.
inline Facts workstation(const char* driver, const char* cuda) {
  Facts facts;
  GpuAnswer gpu;
  gpu.pci_address = "0000:01:00.0";
  gpu.name = std::string("NVIDIA GeForce RTX 4090");
  gpu.compute_capability = std::string("8.9");
  facts.driver.gpus = std::vector{gpu};
  facts.driver.driver_version = std::string(driver);
  facts.driver.cuda_version = std::string(cuda);
  facts.process.environment = Environment{};
  facts.python.interpreter = std::string("/venv/bin/python");
  facts.python.version = std::string("3.11");
  facts.python.machine = std::string("x86_64");
  return facts;
}

/// Modifies the value of a fact.
template <typename T, typename Change>
void alter(Fact<T>& fact, Change change) {
  T value = *fact;
  change(value);
  fact = std::move(value);
}

inline std::vector<Rule> joined(std::initializer_list<std::span<const Rule>> groups) {
  std::vector<Rule> all;
  for (const auto group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

/// The severity of the rule's first finding, such as "warning"; "" if there is none.
inline std::string severity_of(std::span<const Rule> rules, const Facts& facts,
                               std::string_view id) {
  for (const auto& one : diagnose_with({rules.begin(), rules.end()}, facts, {}).findings)
    if (one.id == id)
      return one.severity == Severity::kInfo      ? "info"
             : one.severity == Severity::kWarning ? "warning"
                                                  : "error";
  return "";
}

/// The id of the first finding of all rules; "" if there is none.
inline std::string first_of(const std::vector<Rule>& rules, const Facts& facts) {
  const auto found = diagnose_with(rules, facts, {}).findings;
  return found.empty() ? "" : found.front().id;
}

}  // namespace berth::doctor::tests
