#include "cli/measured_estimate.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "system/runtime_folder.hpp"

namespace berth::cli {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostFile = std::size_t{1} << 20U;

/// Includes the folder and all words, so that another command with the same file name is not
/// mistaken for it.
Json key_of(const std::vector<std::string>& command) {
  std::error_code problem;
  Json words = json_of_words<Json>(command);
  words.push_back(std::filesystem::current_path(problem).string());
  return words;
}

std::string file_of(const Json& key) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char byte : key.dump(-1, ' ', true, Json::error_handler_t::replace))
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  return system::state_folder() + fmt::format("/measured/{:016x}.json", hash);
}

}  // namespace

void keep_estimate(const std::vector<std::string>& command, const MeasuredEstimate& estimate) {
  const Json key = key_of(command);
  const std::string file = file_of(key), draft = file + ".part";
  std::error_code problem;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), problem);
  const Json document = {{"schema", 1},
                         {"command", key},
                         {"peak_bytes", estimate.peak_bytes},
                         {"reserve_bytes", estimate.reserve_bytes}};
  std::ofstream out(draft, std::ios::binary);
  out << document.dump(-1, ' ', true, Json::error_handler_t::replace) << "\n";
  out.close();
  if (out)
    std::filesystem::rename(draft, file, problem);
  else
    std::filesystem::remove(draft, problem);
}

std::optional<MeasuredEstimate> estimate_for(const std::vector<std::string>& command) try {
  const Json key = key_of(command);
  const auto bytes = slurp(file_of(key), kMostFile);
  if (!bytes) return std::nullopt;
  const Json document = Json::parse(*bytes);
  if (document.at("schema") != 1 || document.at("command") != key) return std::nullopt;
  return MeasuredEstimate{json_value<std::uint64_t>(document.at("peak_bytes")),
                          json_value<std::uint64_t>(document.at("reserve_bytes"))};
} catch (const Json::exception&) {
  return std::nullopt;
}

}  // namespace berth::cli
