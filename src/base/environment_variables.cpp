#include "base/environment_variables.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace berth {

std::optional<std::string> env(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): see the header
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

std::optional<std::string> env_nonempty(const char* name) {
  auto value = env(name);
  if (value && value->empty()) return std::nullopt;
  return value;
}

std::map<std::string, std::string> whole_environment() {
  std::map<std::string, std::string> all;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    all.emplace(
        text.substr(0, equals),
        text.substr(equals +
                    1));  // if a name occurs twice, the first entry counts, as with getenv()
  }
  return all;
}

}  // namespace berth
