#include <doctest/doctest.h>

#include <sstream>

#include "base/language_for_tests.hpp"
#include "base/text.hpp"
#include "cli/manual.hpp"
#include "cli/verb.hpp"

using namespace berth;
using namespace berth::cli;

namespace {

int widest(const std::string& page) {
  int most = 0;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);)
    most = std::max(most, output::display_width(line));
  return most;
}

}  // namespace

TEST_CASE("no help page is wider than 100 columns in either language, nor than a narrow terminal") {
  for (const Language wanted : {Language::kEnglish, Language::kChinese}) {
    const InLanguage chosen(wanted);
    output::Terminal terminal;
    for (const int width : {100, 80, 250}) {
      terminal.width = width;
      CHECK(widest(help(nullptr, terminal)) <= std::min(width, 100));
      for (const Verb& verb : verbs()) {
        CAPTURE(verb.name);
        CHECK(widest(help(&verb, terminal)) <= std::min(width, 100));
      }
    }
  }
}

TEST_CASE("every text of the verb table has a Chinese translation") {
  const InLanguage chinese(Language::kChinese);
  const auto translated = [](const char* msgid) {
    CAPTURE(msgid);
    CHECK(tr(msgid) != msgid);
  };
  for (const Verb& verb : verbs()) {
    translated(verb.summary);
    for (const Option& option : verb.options) translated(option.help);
    for (const Example& example : verb.examples) translated(example.says);
  }
  for (const Option& option : common_options()) translated(option.help);
}

TEST_CASE("help, manual page and completion name every verb and every long option") {
  const std::string manual = man_page();
  for (const Verb& verb : verbs()) {
    const std::string page = help(&verb, output::Terminal{});
    for (const Option& option : verb.options) {
      std::string name = option.names;
      name.erase(0, name.rfind("--"));
      CAPTURE(name);
      CHECK(page.find(name) != std::string::npos);
      for (const char* shell : {"bash", "zsh"})
        CHECK(completion(shell).find(name) != std::string::npos);
      CHECK(completion("fish").find(name.substr(2)) != std::string::npos);
      std::string escaped;
      for (const char c : name) escaped += c == '-' ? "\\-" : std::string(1, c);
      CHECK(manual.find(escaped) != std::string::npos);
    }
  }
}

TEST_CASE("where the locale is not UTF-8 a page is plain ASCII") {
  output::Terminal terminal;
  terminal.utf8 = false;
  for (const Verb& verb : verbs())
    for (const char c : help(&verb, terminal)) CHECK(static_cast<unsigned char>(c) < 0x80);
}
