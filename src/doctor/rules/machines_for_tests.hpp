// What tests of several groups of rules build their machines from, and how they ask them.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "doctor/diagnose.hpp"

namespace berth::doctor::tests {

/// A GPU on the bus, with its driver bound.
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

inline std::vector<Rule> joined(std::initializer_list<std::span<const Rule>> groups) {
  std::vector<Rule> all;
  for (const auto group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

/// The id of what the rules put first; "" where nothing holds.
inline std::string first_of(const std::vector<Rule>& rules, const Facts& facts) {
  const auto found = diagnose_with(rules, facts, {}).findings;
  return found.empty() ? "" : found.front().id;
}

}  // namespace berth::doctor::tests
