#include "compare/operators.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

// The start and the end of the embedded Python file. berth_embed() in CMake defines these symbols.
extern "C" {
extern const char berth_compare_profile_torch[];
extern const char berth_compare_profile_torch_end[];
}

namespace berth::compare {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 1 << 20;
constexpr std::size_t kMostOperators = 40;
constexpr std::size_t kLongestName = 100;

double total_of(const std::vector<model::Operator>& operators) {
  return std::accumulate(operators.begin(), operators.end(), 0.0,
                         [](double sum, const model::Operator& one) {
                           return sum + one.cpu_seconds + one.device_seconds;
                         });
}

bool is_time(double seconds) {
  return std::isfinite(seconds) && seconds >= 0;
}

}  // namespace

std::string profile_statement() {
  return {berth_compare_profile_torch, berth_compare_profile_torch_end};
}

std::vector<model::Operator> parse_operators(std::string_view json) try {
  std::vector<model::Operator> operators;
  const auto document = nlohmann::json::parse(json);
  for (const auto& row : document.at("operators")) {
    if (operators.size() == kMostOperators) break;
    model::Operator one;
    one.name = printable(row.at("name").get<std::string>().substr(0, kLongestName));
    one.calls = row.at("calls").get<std::int64_t>();
    one.cpu_seconds = row.at("cpu_seconds").get<double>();
    one.device_seconds = row.at("device_seconds").get<double>();
    if (!one.name.empty() && is_time(one.cpu_seconds) && is_time(one.device_seconds))
      operators.push_back(std::move(one));
  }
  return operators;
} catch (const nlohmann::json::exception&) {
  return {};
}

std::vector<model::Operator> take_operators(const std::string& folder) {
  std::vector<model::Operator> best;
  std::error_code problem;
  std::vector<fs::path> files;
  for (const auto& one : fs::directory_iterator(folder, problem))
    if (one.path().filename().string().starts_with("operators-")) files.push_back(one.path());
  for (const fs::path& path : files) {
    if (fs::is_regular_file(fs::symlink_status(path, problem))) {
      auto found = parse_operators(slurp(path.string(), kMostBytes).value_or(""));
      if (total_of(found) > total_of(best)) best = std::move(found);
    }
    fs::remove(path, problem);
  }
  return best;
}

}  // namespace berth::compare
