#include "top/keys.hpp"

#include <algorithm>
#include <csignal>
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
    // Remove the last character: first its continuation bytes (UTF-8), then its first byte.
    while (settings.filter.size() > 1 && (settings.filter.back() & 0xC0) == 0x80)
      settings.filter.pop_back();
    settings.filter.pop_back();
  }
  if (key == Key::kCharacter && settings.filter.size() < kLongestFilter)
    settings.filter += character;
  settings.row = 0;
}

std::string next_of(std::string_view words, const std::string& word) {
  const auto all = split(words, '|');
  const auto at = std::find(all.begin(), all.end(), word);
  return std::string(at == all.end() || at + 1 == all.end() ? all.front() : *(at + 1));
}

/// Handles the keys that change the order. Returns false for other keys.
bool sort_by(Settings& settings, char character) {
  switch (character) {
    case 's':
      do settings.sort = next_of(kSortKeys, settings.sort);
      while (order_of(settings) != settings.sort);
      return true;
    case 'M':
      settings.sort = "memory";
      return true;
    case 'P':
      settings.sort = "sm";
      return true;
    case 'U':
      settings.sort = "user";
      return true;
    default:
      return false;
  }
}

/// Handles the keys that change how the list looks. Returns false for other keys.
bool change_look(Settings& settings, char character) {
  switch (character) {
    case 't':
      settings.is_tree = settings.by_user || !settings.is_tree;
      settings.by_user = false;
      return true;
    case 'u':
      settings.by_user = !settings.by_user;
      settings.row = 0;
      settings.has_row = false;
      return true;
    case 'T':
      settings.theme = next_of(kThemes, settings.theme);
      return true;
    case 'G':
      settings.graph = next_of(kGraphs, settings.graph);
      settings.has_graphs = true;
      return true;
    case 'g':
      settings.has_graphs = !settings.has_graphs;
      return true;
    default:
      return false;
  }
}

void move(Settings& settings, Key key) {
  int& row = settings.row;
  if (!settings.has_row) {
    settings.has_row = key == Key::kUp || key == Key::kDown || key == Key::kPageUp ||
                       key == Key::kPageDown || key == Key::kEnd;
    if (key == Key::kUp || key == Key::kDown) return;  // the first key only selects the first row
  }
  if (key == Key::kUp) --row;
  if (key == Key::kDown) ++row;
  if (key == Key::kPageUp) row -= kPage;
  if (key == Key::kPageDown) row += kPage;
  if (key == Key::kHome) row = 0;
  if (key == Key::kEnd) row = 1 << 20;  // draw() limits this to the last row
  row = std::clamp(row, 0, 1 << 20);
}

void answer(Settings& settings, Key key, char character) {
  settings.question.clear();
  if (key != Key::kCharacter) return;
  if (settings.shows_queue) {
    settings.is_confirmed = character == 'y';
    return;
  }
  if (character == 'y') settings.signal = SIGTERM;
  if (character == 'K') settings.signal = SIGKILL;
}

}  // namespace

std::string_view order_of(const Settings& settings) {
  const bool is_of_users = settings.sort != "age" && settings.sort != "pid";
  return settings.by_user && !is_of_users ? std::string_view("memory") : settings.sort;
}

bool press(Settings& settings, Key key, char character) {
  settings.message.clear();
  if (!settings.question.empty()) {
    answer(settings, key, character);
    return true;
  }
  if (settings.types_filter && key != Key::kClick) {
    type_filter(settings, key, character);
    return true;
  }
  if (settings.shows_help) {
    settings.shows_help = false;
    return key != Key::kCharacter || character != 'q';
  }
  if (key == Key::kEscape) {
    settings.filter.clear();
    settings.has_row = false;
    return true;
  }
  if (key == Key::kLeft || key == Key::kRight) {
    settings.steps += key == Key::kLeft ? -1 : 1;
    return true;
  }
  if (key == Key::kClick) settings.is_clicked = !settings.shows_queue;
  if (key != Key::kCharacter) {
    move(settings, key);
    return true;
  }
  if (sort_by(settings, character) || change_look(settings, character)) return true;
  switch (character) {
    case 'q':
      return false;
    case 'r':
      settings.is_reversed = !settings.is_reversed;
      break;
    case '/':
      settings.types_filter = true;
      break;
    case 'x':
      settings.wants_signal = !settings.shows_queue;
      break;
    case 'Q':
      settings.shows_queue = !settings.shows_queue;
      settings.row = 0;
      settings.has_row = false;
      break;
    case 'c':
    case 'H':
      if (settings.shows_queue) settings.job_change = character;
      break;
    case ' ':
      settings.is_paused = !settings.is_paused;
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
