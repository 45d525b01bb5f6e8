#include "top/keys.hpp"

#include <doctest/doctest.h>

using namespace berth::top;

namespace {

void type(Settings& settings, const char* text) {
  for (; *text != '\0'; ++text) CHECK(press(settings, Key::kCharacter, *text));
}

}  // namespace

TEST_CASE("q ends the view, but not while a filter is typed") {
  Settings settings;
  CHECK_FALSE(press(settings, Key::kCharacter, 'q'));
  type(settings, "/q");
  CHECK(settings.filter == "q");
  CHECK(press(settings, Key::kEnter));
  CHECK_FALSE(press(settings, Key::kCharacter, 'q'));
}

TEST_CASE("a filter is typed, corrected by characters, kept and cleared") {
  Settings settings;
  type(settings, "/trän");
  CHECK(press(settings, Key::kBackspace));
  CHECK(press(settings, Key::kBackspace));
  CHECK(settings.filter == "tr");
  CHECK(press(settings, Key::kEnter));
  CHECK_FALSE(settings.types_filter);
  CHECK(press(settings, Key::kEscape));
  CHECK(settings.filter.empty());
  CHECK(press(settings, Key::kBackspace));
}

TEST_CASE("s goes through all orders and back to the first") {
  Settings settings;
  const std::string first = settings.sort;
  int steps = 0;
  do {
    type(settings, "s");
    ++steps;
  } while (settings.sort != first && steps < 100);
  CHECK(steps == 8);
}

TEST_CASE("the list is moved through within bounds") {
  Settings settings;
  CHECK(press(settings, Key::kUp));
  CHECK(settings.first_row == 0);
  CHECK(press(settings, Key::kPageDown));
  CHECK(press(settings, Key::kDown));
  CHECK(settings.first_row == 11);
  for (int i = 0; i < 10; ++i) CHECK(press(settings, Key::kEnd));
  CHECK(press(settings, Key::kHome));
  CHECK(settings.first_row == 0);
}

TEST_CASE("any key closes the help") {
  Settings settings;
  type(settings, "?");
  CHECK(settings.shows_help);
  type(settings, "s");
  CHECK_FALSE(settings.shows_help);
  CHECK(settings.sort == "memory");
}
