#include "doctor/knowledge/device_list.hpp"

#include <algorithm>

#include "base/text_parts.hpp"

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

std::string several_in_one(std::string_view token) {
  std::vector<std::size_t> numbers;
  bool is_range = false;
  for (std::size_t at = token.find_first_of("0123456789"); at != std::string_view::npos;) {
    const auto number = listed_number(token.substr(at));
    if (!number) return "";
    numbers.push_back(*number);
    const std::size_t end = std::min(token.find_first_not_of("0123456789", at), token.size());
    at = token.find_first_of("0123456789", end);
    if (at == std::string_view::npos) break;
    const std::string_view between = trim(token.substr(end, at - end));
    is_range = between == "-" || between == "..";
    if (!is_range && !between.empty() && between != ";" && between != "|" && between != "+")
      return "";
  }
  if (numbers.size() < 2) return "";
  constexpr std::size_t kMost = 64;
  const std::size_t first = numbers[0], last = numbers[1];
  if (is_range && numbers.size() == 2 && first < last && last < kMost)
    for (std::size_t i = first + 1; i < last; ++i) numbers.insert(numbers.end() - 1, i);
  std::string all;
  for (const std::size_t one : numbers) all += (all.empty() ? "" : ",") + std::to_string(one);
  return all;
}

}  // namespace berth::doctor
