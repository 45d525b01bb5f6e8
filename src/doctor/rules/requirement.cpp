#include "doctor/rules/requirement.hpp"

#include "base/file.hpp"
#include "doctor/facts/driver_files.hpp"
#include "doctor/knowledge/version.hpp"

namespace berth::doctor {
namespace {

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
  // A product name contains the brand only for GeForce. For other brands, the result is unknown.
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

}  // namespace berth::doctor
