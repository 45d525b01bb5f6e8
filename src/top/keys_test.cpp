#include "top/keys.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <utility>

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

TEST_CASE("users are in no order that they do not have") {
  Settings settings;
  settings.sort = "age";
  CHECK(order_of(settings) == "age");
  settings.by_user = true;
  CHECK(order_of(settings) == "memory");
  for (int i = 0; i < 20; ++i) {
    type(settings, "s");
    CHECK(settings.sort != "age");
    CHECK(settings.sort != "pid");
  }
}

TEST_CASE("the list is moved through within bounds") {
  Settings settings;
  CHECK_FALSE(settings.has_row);
  CHECK(press(settings, Key::kDown));
  CHECK(settings.has_row);
  CHECK(settings.row == 0);
  CHECK(press(settings, Key::kUp));
  CHECK(settings.row == 0);
  CHECK(press(settings, Key::kPageDown));
  CHECK(press(settings, Key::kDown));
  CHECK(settings.row == 11);
  for (int i = 0; i < 10; ++i) CHECK(press(settings, Key::kEnd));
  CHECK(press(settings, Key::kHome));
  CHECK(settings.row == 0);
}

TEST_CASE("any key closes the help") {
  Settings settings;
  type(settings, "?");
  CHECK(settings.shows_help);
  type(settings, "s");
  CHECK_FALSE(settings.shows_help);
  CHECK(settings.sort == "memory");
}

TEST_CASE("a click that closes the help or answers a question does nothing else") {
  Settings settings;
  const auto clicks = [&] {
    settings.is_clicked = false;
    CHECK(press(settings, Key::kClick));
    return settings.is_clicked;
  };
  CHECK(clicks());
  type(settings, "?");
  CHECK_FALSE(clicks());
  CHECK_FALSE(settings.shows_help);
  settings.question = "sure?";
  CHECK_FALSE(clicks());
  CHECK(settings.question.empty());
  CHECK(settings.signal == 0);
  type(settings, "Q");
  CHECK_FALSE(clicks());  // the queue does not handle clicks
  type(settings, "Q/a");
  CHECK(clicks());
  CHECK(settings.types_filter);
}

TEST_CASE("Esc gives up the selected row, and Enter selects none") {
  Settings settings;
  CHECK(press(settings, Key::kEnter));
  CHECK_FALSE(settings.has_row);
  CHECK(press(settings, Key::kDown));
  CHECK(settings.has_row);
  CHECK(press(settings, Key::kEscape));
  CHECK_FALSE(settings.has_row);
}

TEST_CASE("a question is answered by the next key, and only y and K say yes") {
  Settings settings;
  type(settings, "x");
  CHECK(settings.wants_signal);
  for (const auto& [key, signal] : {std::pair{'y', SIGTERM}, {'K', SIGKILL}, {'n', 0}, {'q', 0}}) {
    settings.signal = 0;
    settings.question = "sure?";
    CHECK(press(settings, Key::kCharacter, key));
    CHECK(settings.signal == signal);
    CHECK(settings.question.empty());
  }
  settings.signal = 0;
  settings.question = "sure?";
  CHECK(press(settings, Key::kEnter));
  CHECK(settings.signal == 0);
}

TEST_CASE("t and u choose what the list shows, and T goes through the themes") {
  Settings settings;
  CHECK(press(settings, Key::kCharacter, 'u'));
  CHECK(settings.by_user);
  CHECK(press(settings, Key::kCharacter, 't'));
  CHECK(settings.is_tree);
  CHECK_FALSE(settings.by_user);
  type(settings, "ut");  // "u" shows one row per user, then "t" shows the tree
  CHECK(settings.is_tree);
  type(settings, "t");
  CHECK_FALSE(settings.is_tree);
  for (const char* theme : {"light", "mono", "dark"}) {
    CHECK(press(settings, Key::kCharacter, 'T'));
    CHECK(settings.theme == theme);
  }
}
