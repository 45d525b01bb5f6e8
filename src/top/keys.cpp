#include "top/keys.hpp"

#include <algorithm>
#include <vector>

#include "base/text_parts.hpp"

namespace berth::top {

namespace {

constexpr std::size_t kLongestFilter = 200;
constexpr int kPage = 10;

void type_filter(Settings& settings, Key key, char character) {
  if (key == Key::kEnter) settings.types_filter = false;
  if (key == Key::kEscape) {
    settings.types_filter = false;
    settings.filter.clear();
  }
  if (key == Key::kBackspace && !settings.filter.empty()) {
    // Remove all bytes of a UTF-8 character.
    while (settings.filter.size() > 1 && (settings.filter.back() & 0xC0) == 0x80)
      settings.filter.pop_back();
    settings.filter.pop_back();
  }
  if (key == Key::kCharacter && settings.filter.size() < kLongestFilter)
    settings.filter += character;
  settings.first_row = 0;
}

void sort_by_next(Settings& settings) {
  const auto keys = split(std::string_view(kSortKeys), '|');
  const auto at = std::find(keys.begin(), keys.end(), settings.sort);
  settings.sort = at == keys.end() || at + 1 == keys.end() ? keys.front() : *(at + 1);
}

void move(Settings& settings, Key key) {
  int& row = settings.first_row;
  if (key == Key::kUp) --row;
  if (key == Key::kDown) ++row;
  if (key == Key::kPageUp) row -= kPage;
  if (key == Key::kPageDown) row += kPage;
  if (key == Key::kHome) row = 0;
  if (key == Key::kEnd) row = 1 << 20;  // drawing limits it to the last row
  row = std::clamp(row, 0, 1 << 20);
}

}  // namespace

bool press(Settings& settings, Key key, char character) {
  if (settings.types_filter) {
    type_filter(settings, key, character);
    return true;
  }
  if (settings.shows_help) {
    settings.shows_help = false;
    return key != Key::kCharacter || character != 'q';
  }
  if (key == Key::kEscape) settings.filter.clear();
  if (key != Key::kCharacter) {
    move(settings, key);
    return true;
  }
  switch (character) {
    case 'q':
      return false;
    case 's':
      sort_by_next(settings);
      break;
    case 'M':
      settings.sort = "memory";
      break;
    case 'P':
      settings.sort = "sm";
      break;
    case 'U':
      settings.sort = "user";
      break;
    case 'r':
      settings.is_reversed = !settings.is_reversed;
      break;
    case '/':
      settings.types_filter = true;
      break;
    case 'g':
      settings.has_graphs = !settings.has_graphs;
      break;
    case '?':
    case 'h':
      settings.shows_help = true;
      break;
    case 'j':
      move(settings, Key::kDown);
      break;
    case 'k':
      move(settings, Key::kUp);
      break;
    default:
      break;
  }
  return true;
}

}  // namespace berth::top
