#include "job/prices.hpp"

#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::job {
namespace {

constexpr const char* kOfMachine = "/etc/berth/prices.toml";
constexpr std::size_t kMostBytes = 4096;

std::string file_of_user() {
  if (const auto folder = env_nonempty("XDG_CONFIG_HOME")) return *folder + "/berth/prices.toml";
  const auto home = env_nonempty("HOME");
  return home ? *home + "/.config/berth/prices.toml" : "";
}

}  // namespace

Result<model::UsagePrices> read_prices() {
  for (const std::string& path : {file_of_user(), std::string(kOfMachine)}) {
    if (path.empty()) continue;
    const auto document = read_file(path, kMostBytes);
    if (document) return model::parse_usage_prices(*document, printable(path));
    if (document.error().code != ErrorCode::kNotFound) return document.error();
  }
  return model::UsagePrices{};
}

}  // namespace berth::job
