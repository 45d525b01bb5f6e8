#include "doctor/rules/requirement.hpp"

#include <array>

#include "base/file.hpp"
#include "doctor/facts/driver_files.hpp"
#include "doctor/knowledge/version.hpp"

namespace berth::doctor {
namespace {

/// The CUDA release of each driver branch, from NVIDIA's CUDA toolkit release notes (table of
/// toolkits and drivers).
struct Branch {
  int driver;
  const char* cuda;
};
constexpr auto kBranches = std::to_array<Branch>({
    {384, "9.0"},  {387, "9.1"},  {396, "9.2"},  {410, "10.0"}, {418, "10.1"}, {440, "10.2"},
    {450, "11.0"}, {455, "11.1"}, {460, "11.2"}, {465, "11.3"}, {470, "11.4"}, {495, "11.5"},
    {510, "11.6"}, {515, "11.7"}, {520, "11.8"}, {525, "12.0"}, {530, "12.1"}, {535, "12.2"},
    {545, "12.3"}, {550, "12.4"}, {555, "12.5"}, {560, "12.6"}, {565, "12.7"}, {570, "12.8"},
    {575, "12.9"}, {580, "13.0"}, {590, "13.1"}, {595, "13.2"}, {610, "13.3"},
});

Satisfied compare(std::string_view left, std::string_view relation, std::string_view right) {
  if (left.empty()) return Satisfied::kUnknown;
  const bool less = is_older(left, right);
  const bool more = is_older(right, left);
  bool holds = false;
  if (relation == ">=") holds = !less;
  if (relation == "<=") holds = !more;
  if (relation == ">") holds = more;
  if (relation == "<") holds = less;
  if (relation == "=") holds = !less && !more;
  if (relation == "!=") holds = less || more;
  return holds ? Satisfied::kYes : Satisfied::kNo;
}

Satisfied is_brand(std::string_view gpu, std::string_view brand) {
  // The product name shows the brand GeForce, but not the brands of data centre and workstation
  // cards.
  if (gpu.empty()) return Satisfied::kUnknown;
  const bool geforce = gpu.find("GeForce") != std::string_view::npos;
  if (geforce)
    return brand == "geforce" || brand == "geforcertx" ? Satisfied::kYes : Satisfied::kNo;
  return brand.starts_with("geforce") ? Satisfied::kNo : Satisfied::kUnknown;
}

Satisfied holds(std::string_view condition, const DriverForImage& driver) {
  const auto at = condition.find_first_of("<>=!");
  if (at == std::string_view::npos) return Satisfied::kUnknown;
  const auto end = condition.find_first_not_of("<>=!", at);
  if (end == std::string_view::npos) return Satisfied::kUnknown;
  const std::string_view what = condition.substr(0, at);
  const std::string_view relation = condition.substr(at, end - at);
  const std::string_view value = condition.substr(end);
  if (what == "cuda") return compare(driver.cuda, relation, value);
  if (what == "driver") return compare(driver.version, relation, value);
  if (what == "brand" && relation == "=") return is_brand(driver.gpu, value);
  return Satisfied::kUnknown;
}

}  // namespace

Satisfied satisfies(std::string_view requirement, const DriverForImage& driver) {
  bool unknown = false;
  bool any = false;
  for (const std::string_view alternative : split(requirement, ' ')) {
    if (trim(alternative).empty()) continue;
    any = true;
    Satisfied all = Satisfied::kYes;
    for (const std::string_view condition : split(trim(alternative), ',')) {
      const Satisfied one = holds(condition, driver);
      if (one == Satisfied::kNo) all = Satisfied::kNo;
      if (one == Satisfied::kUnknown && all == Satisfied::kYes) all = Satisfied::kUnknown;
    }
    if (all == Satisfied::kYes) return Satisfied::kYes;
    unknown = unknown || all == Satisfied::kUnknown;
  }
  return !any || unknown ? Satisfied::kUnknown : Satisfied::kNo;
}

std::string first_condition(std::string_view requirement) {
  const std::string_view first = trim(requirement);
  return std::string(first.substr(0, first.find(' ')));
}

std::string cuda_of_driver(std::string_view version) {
  const auto branch = to_number(version.substr(0, version.find('.'))).value_or(0);
  std::string cuda;
  for (const Branch& one : kBranches)
    if (branch >= one.driver) cuda = one.cuda;
  return cuda;
}

}  // namespace berth::doctor
