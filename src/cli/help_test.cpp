#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>

#include "base/language_for_tests.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "cli/manual.hpp"
#include "cli/verb.hpp"
#include "cli/verbs.hpp"
#include "doctor/read/command_wrappers.hpp"
#include "model/job.hpp"
#include "run/hang_action.hpp"

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
  for (const Verb& verb : verbs()) {
    const std::string manual = man_page(verb);
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

TEST_CASE("every manual page has the usual sections") {
  const std::string whole = man_page();
  for (const Verb& verb : verbs()) {
    CAPTURE(verb.name);
    const std::string page = man_page(verb);
    for (const char* heading : {"NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "FILES"})
      CHECK(page.find("\n.SH " + std::string(heading) + "\n") != std::string::npos);
    CHECK((page.find("\n.SH EXAMPLES\n") != std::string::npos) == !verb.examples.empty());
    if (verb.name[0] != '\0')
      CHECK(whole.find("berth\\-" + std::string(verb.name) + "(1)") != std::string::npos);
  }
}

TEST_CASE("completion offers the existing jobs and devices") {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    CHECK(completion(shell).find("berth help --words jobs") != std::string::npos);
    CHECK(completion(shell).find("berth help --words devices") != std::string::npos);
  }
}

TEST_CASE("a verb of another tool leads to a hint with Berth's verb") {
  CHECK(unknown_verb("kill").hint.find("berth cancel") != std::string::npos);
  CHECK(unknown_verb("status").hint.find("berth jobs") != std::string::npos);
  CHECK(unknown_verb("submit").hint.find("berth run --queue") != std::string::npos);
  for (const char* word : {"top", "watch", "nvidia-smi"})
    CHECK(unknown_verb(word).hint.find("did you mean") != std::string::npos);
  CHECK(unknown_verb("canel").hint.find("berth cancel") != std::string::npos);
  CHECK(unknown_verb("xyzzy").hint == "berth help");
}

TEST_CASE("doctor knows which options of berth run take a value") {
  const Verb* run = find_verb("run");
  REQUIRE(run != nullptr);
  std::set<std::string> taking, known;
  const auto add = [&](const Option& option) {
    if (option.value == nullptr) return;
    for (const std::string_view name : split(std::string_view(option.names), ','))
      taking.emplace(name);
  };
  for (const Option& option : run->options) add(option);
  for (const Option& option : common_options()) add(option);
  for (const std::string_view word : split(doctor::kOfBerthRun, ' '))
    if (!word.empty()) known.emplace(word);
  CHECK(known == taking);
}

TEST_CASE("the help of an option names its default") {
  const Verb* run = find_verb("run");
  REQUIRE(run != nullptr);
  const auto named = [&](std::string_view name) {
    const auto option =
        std::find_if(run->options.begin(), run->options.end(),
                     [&](const Option& one) { return std::string_view(one.names) == name; });
    REQUIRE(option != run->options.end());
    const std::string help = option->help;
    const auto begin = help.find("default: ") + 9;
    const auto duration = parse_duration(help.substr(begin, help.find(')', begin) - begin));
    REQUIRE(duration);
    return *duration;
  };
  CHECK(named("--grace") == model::kDefaultGrace);
  CHECK(named("--hang-timeout") == berth::run::kDefaultHangTimeout);
}
