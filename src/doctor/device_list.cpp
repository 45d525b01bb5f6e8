#include "doctor/device_list.hpp"

#include <algorithm>

#include "base/file.hpp"

namespace berth::doctor {

std::vector<std::string_view> listed_devices(std::string_view list) {
  auto tokens = split(list, ',');
  if (tokens.size() > 1 && trim(tokens.back()).empty()) tokens.pop_back();
  return tokens;
}

std::optional<std::size_t> listed_number(std::string_view token) {
  constexpr std::size_t kMostDigits = 5;
  const std::size_t end = std::min(token.find_first_not_of("0123456789"), token.size());
  if (end == 0 || end > kMostDigits) return std::nullopt;
  std::size_t number = 0;
  for (const char digit : token.substr(0, end))
    number = number * 10 + static_cast<std::size_t>(digit - '0');
  return number;
}

bool names_device(std::string_view token) {
  return token.starts_with("GPU-") || token.starts_with("MIG-");
}

bool hides_every_device(std::string_view list) {
  const std::string_view first = trim(list.substr(0, list.find(',')));
  return first.empty() || first == "-1" || first == "NoDevFiles" || first == "none" ||
         first == "void";
}

std::string plain_device_list(std::string_view list) {
  std::vector<std::string> kept;
  for (const std::string_view one : listed_devices(list)) {
    const std::string_view token = trim(one);
    const auto number = listed_number(token);
    if (!number && !names_device(token)) continue;
    std::string plain = number ? std::to_string(*number) : std::string(token);
    if (std::find(kept.begin(), kept.end(), plain) == kept.end()) kept.push_back(std::move(plain));
  }
  std::string all;
  for (const std::string& one : kept) all += (all.empty() ? "" : ",") + one;
  return all;
}

}  // namespace berth::doctor
