#include "cli/measured_estimate.hpp"

#include <filesystem>

#include "base/file.hpp"
#include "base/fnv1a.hpp"
#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/write_file.hpp"
#include "system/runtime_folder.hpp"

namespace berth::cli {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostFile = std::size_t{1} << 20U;

/// The key of a command's estimate: the current folder and all words. The file contains the key,
/// because the file's name is only a checksum, which two commands may share.
Json key_of(const std::vector<std::string>& command) {
  std::error_code problem;
  Json words = json_of_words<Json>(command);
  words.push_back(std::filesystem::current_path(problem).string());
  return words;
}

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string file_for(const Json& key) {
  return system::state_folder() + fmt::format("/measured/{:016x}.json", fnv1a(line_of(key)));
}

}  // namespace

void keep_estimate(const std::vector<std::string>& command, const MeasuredEstimate& estimate) {
  const Json key = key_of(command);
  const std::string file = file_for(key);
  std::error_code problem;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), problem);
  const Json document = {{"schema", 1},
                         {"command", key},
                         {"peak_bytes", estimate.peak_bytes},
                         {"reserve_bytes", estimate.reserve_bytes}};
  // Ignore a failed write. Then `berth run` cannot warn about too little memory, but everything
  // else works.
  static_cast<void>(replace_file(file, line_of(document) + "\n", 0644));
}

std::optional<MeasuredEstimate> estimate_for(const std::vector<std::string>& command) try {
  const Json key = key_of(command);
  const auto bytes = slurp(file_for(key), kMostFile);
  if (!bytes) return std::nullopt;
  const Json document = Json::parse(*bytes);
  if (document.at("schema") != 1 || document.at("command") != key) return std::nullopt;
  return MeasuredEstimate{json_value<std::uint64_t>(document.at("peak_bytes")),
                          json_value<std::uint64_t>(document.at("reserve_bytes"))};
} catch (const Json::exception&) {
  return std::nullopt;
}

}  // namespace berth::cli
