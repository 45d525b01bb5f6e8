// Compares two documents as texts, because parsing 200 processes each second would cost more than
// all streams. This works because JsonWriter writes the same keys in the same order.
#include "serve/frame_change.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace berth::serve {
namespace {

using Member = std::pair<std::string_view, std::string_view>;  // key with quotes, value

/// The position after the value that begins at `at`: that of a comma or of the closing bracket.
std::size_t end_of(std::string_view text, std::size_t at) {
  for (int depth = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at)
        if (text[at] == '\\') ++at;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth-- == 0) return at;
    } else if (c == ',' && depth == 0) {
      return at;
    }
  }
  return text.size();
}

/// The values of an array or the members of an object, as texts.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 1; at < text.size();) {
    const std::size_t end = end_of(text, at);
    if (end > at) parts.push_back(text.substr(at, end - at));
    if (end >= text.size() || text[end] != ',') break;
    at = end + 1;
  }
  return parts;
}

std::vector<Member> members_of(std::string_view object) {
  std::vector<Member> members;
  for (const std::string_view part : parts_of(object)) {
    const std::size_t colon = part.find("\":");  // a key contains no quotes
    if (colon == std::string_view::npos) return {};
    members.emplace_back(part.substr(0, colon + 1), part.substr(colon + 2));
  }
  return members;
}

bool is_list_of_rows(std::string_view value) {
  return value.starts_with("[{");
}

/// The part of a row that identifies its process: the members up to its pid. "" if the row has no
/// process.
std::string_view process_of(std::string_view row) {
  // A string value cannot contain this key, because its quotes would be escaped.
  constexpr std::string_view kKey = "\"host_pid\":";
  const std::size_t at = row.find(kKey);
  if (at == std::string_view::npos || row.substr(at + kKey.size()).starts_with("null")) return {};
  return row.substr(0, row.find_first_of(",}", at));
}

/// The positions of processes in a list.
std::unordered_map<std::string_view, std::size_t> places_of(
    const std::vector<std::string_view>& rows) {
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (const auto process = process_of(rows[i]); !process.empty()) places.emplace(process, i);
  return places;
}

/// What differs between two rows. `from`: the position of `before` in its list. nullopt: the rows
/// have different keys.
std::optional<std::string> row_change(std::string_view before, std::size_t from,
                                      std::string_view after, std::size_t row) {
  const auto old = members_of(before), now = members_of(after);
  if (old.size() != now.size()) return std::nullopt;
  std::string change = fmt::format("{{\"row\":{}", row);
  const std::size_t empty = change.size();
  if (from != row) change += fmt::format(",\"from\":{}", from);
  bool is_same_process = false;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const auto& [key, value] = now[i];
    if (old[i].first != key) return std::nullopt;
    if (key == "\"pid\"") is_same_process = old[i].second == value && value != "null";
    const bool only_grows =
        is_same_process && key == "\"age_seconds\"" && value != "null" && old[i].second != "null";
    if (old[i].second != value && !only_grows) change += fmt::format(",{}:{}", key, value);
  }
  return change.size() == empty ? "" : change + "}";
}

/// The rows that differ between two lists. nullopt: the whole list must be sent.
std::optional<std::string> rows_change(std::string_view before, std::string_view after) {
  const auto old = parts_of(before), now = parts_of(after);
  if (old.size() != now.size()) return std::nullopt;
  std::string rows;
  const auto places =
      old == now ? std::unordered_map<std::string_view, std::size_t>() : places_of(old);
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (old[i] == now[i]) continue;
    const auto moved = places.find(process_of(now[i]));
    const std::size_t from = moved == places.end() ? i : moved->second;
    const auto change = row_change(old[from], from, now[i], i);
    if (!change) return std::nullopt;
    if (!change->empty()) rows += (rows.empty() ? "" : ",") + *change;
  }
  return rows;
}

}  // namespace

std::string frame_change(std::string_view before, std::string_view after) {
  const auto old = members_of(before), now = members_of(after);
  std::string change;
  const auto add = [&change](std::string_view key, std::string_view value) {
    change += fmt::format("{}{}:{}", change.empty() ? "" : ",", key, value);
  };
  for (std::size_t i = 0; i < now.size(); ++i) {
    const auto& [key, value] = now[i];
    const bool is_known = i < old.size() && old[i].first == key;
    if (is_known && old[i].second == value) continue;
    const auto rows = is_known && is_list_of_rows(old[i].second) && is_list_of_rows(value)
                          ? rows_change(old[i].second, value)
                          : std::nullopt;
    if (!rows)
      add(key, value);
    else if (!rows->empty())
      add(fmt::format("{}_changed\"", key.substr(0, key.size() - 1)), "[" + *rows + "]");
  }
  return "{" + change + "}\n";
}

}  // namespace berth::serve
