#include <doctest/doctest.h>

#include <array>

#include "cli/verb.hpp"

using namespace berth;
using namespace berth::cli;

namespace {

constexpr auto kOptions = std::to_array<Option>({
    {"-d,--device", "LIST", "devices"},
    {"--sort", "memory|utilization", "order"},
    {"--mine", nullptr, "only mine"},
    {"--env", "NAME=VALUE", "variables", true},
});
const Verb kLook{"look", Group::kLook, "", "", false, kOptions, {}, nullptr};
const Verb kTopic{"topic", Group::kLook, "", "[TOPIC]", false, kOptions, {}, nullptr};
const Verb kRun{"run", Group::kUse, "", "-- COMMAND", true, kOptions, {}, nullptr};

using Words = std::vector<std::string>;

std::string id_of(const Verb& verb, const Words& words) {
  const auto parsed = parse(verb, words);
  return parsed ? "" : parsed.error().id;
}

}  // namespace

TEST_CASE("options are read in every spelling, and the last value counts") {
  for (const Words& words : {Words{"--device", "1"}, Words{"--device=1"}, Words{"-d", "1"},
                             Words{"-d", "0", "--device", "1"}}) {
    const auto parsed = parse(kLook, words);
    REQUIRE(parsed);
    CHECK(parsed->value("--device") == "1");
    CHECK_FALSE(parsed->has("--mine"));
  }
  const auto both = parse(kLook, {"--env", "A=1", "--env", "B=--mine"});
  REQUIRE(both);
  CHECK(both->values("--env") == Words{"A=1", "B=--mine"});
}

TEST_CASE("an option that does not exist is refused with the nearest one") {
  const auto parsed = parse(kLook, {"--devcie", "1"});
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().id == "E0001");
  CHECK(parsed.error().code == ErrorCode::kInvalidArgument);
  CHECK(parsed.error().message == "there is no option --devcie");
  CHECK(parsed.error().hint == "did you mean --device?   berth look --help");
  CHECK(id_of(kLook, {"--nothing-like-it=3"}) == "E0001");
  CHECK(id_of(kLook, {"-x"}) == "E0001");
}

TEST_CASE("a value may look like an option, and short options may be combined") {
  CHECK(parse(kLook, {"-d0"})->value("--device") == "0");
  CHECK(parse(kLook, {"-d", "--mine=x"}).error().id == "E0001");
  for (const char* word :
       {"--mine", "--other"})  // "--other" is the value of --mine, although it looks like an option
    CHECK(parse(kLook, {"-d", word})->value("--device") == word);
  CHECK(parse(kLook, {"--sort", "memory", "--device=1,2"})->value("--device") == "1,2");
  const Words mentioned{"--env", "A=--mine"};
  CHECK_FALSE(parse(kLook, mentioned)->has("--mine"));
  const auto combined = parse(kLook, {"-hd7"});
  CHECK(combined->has("--help"));
  CHECK(combined->value("--device") == "7");
}

TEST_CASE("a missing value and a surplus value have different errors") {
  const auto missing = parse(kLook, {"--device"});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message == "--device needs a value: LIST");
  const auto forgotten = parse(kLook, {"--device", "--", "python"});
  REQUIRE_FALSE(forgotten);
  CHECK(forgotten.error().message == "--device needs a value: LIST");
  const auto given = parse(kLook, {"--mine=yes"});
  REQUIRE_FALSE(given);
  CHECK(given.error().message == "--mine takes no value");
}

TEST_CASE("an option with a fixed list of values accepts no other value") {
  CHECK(parse(kLook, {"--sort", "memory"}));
  const auto parsed = parse(kLook, {"--sort", "memmory"});
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().id == "E0003");
  CHECK(parsed.error().hint.find("did you mean memory?") == 0);
  CHECK(id_of(kLook, {"--lang", "fr"}) == "E0003");
  CHECK(id_of(kLook, {"--color=sometimes"}) == "E0003");
  for (const char* locale : {"zh", "zh_CN", "zh-Hans", "zh_CN.UTF-8", "en_US.UTF-8"})
    CHECK(parse(kLook, {"--lang", locale}));
  CHECK(choices(kOptions[3]).empty());
}

TEST_CASE("a verb without a command takes words after the separator as operands") {
  CHECK(id_of(kLook, {"extra"}) == "E0004");
  CHECK(id_of(kLook, {"--", "extra"}) == "E0004");
  const auto parsed = parse(kTopic, {"--mine", "--", "--device"});
  REQUIRE(parsed);
  CHECK(parsed->positional == Words{"--device"});
  CHECK(parsed->command.empty());
  const auto beside = parse(kTopic, {"--device", "0", "words", "--device", "1"});
  REQUIRE(beside);
  CHECK(beside->positional == Words{"words"});
  CHECK(beside->values("--device") == Words{"0", "1"});
}

TEST_CASE(
    "the command begins after the separator or at the first word, and keeps its own options") {
  for (const Words& words : {Words{"--device", "1", "--", "python", "--mine", "--lang", "fr"},
                             Words{"--device", "1", "python", "--mine", "--lang", "fr"}}) {
    const auto parsed = parse(kRun, words);
    REQUIRE(parsed);
    CHECK(parsed->command == Words{"python", "--mine", "--lang", "fr"});
    CHECK(parsed->value("--device") == "1");
    CHECK_FALSE(parsed->has("--mine"));
  }
  CHECK(id_of(kRun, {"--devcie", "1", "--", "python"}) == "E0001");
  CHECK(id_of(kRun, {"word", "--", "python"}) ==
        "");  // without a "--" before the command, all words belong to it, also a later "--"
  const auto inner = parse(kRun, {"python", "--", "x"});
  REQUIRE(inner);
  CHECK(inner->command == Words{"python", "--", "x"});
  CHECK_FALSE(inner->has_separator);
  const auto bare = parse(kRun, {"--"});
  REQUIRE(bare);
  CHECK(bare->has_separator);
  CHECK(bare->command.empty());
}

TEST_CASE("hostile words are printed without control characters") {
  const auto parsed = parse(kLook, {"--\x1b[31m"});
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().message.find('\x1b') == std::string::npos);
}

TEST_CASE("a suggestion is similar, or there is none") {
  const Words known{"", "ls", "ps", "run", "help"};
  CHECK(nearest("sl", known) == "ls");
  CHECK(nearest("x", known) == "");
  CHECK(nearest("hepl", known) == "help");
  CHECK(nearest("runn", known) == "run");
  CHECK(nearest("zzzzzz", known) == "");
  CHECK(nearest(std::string(100'000, 'a'), known) == "");
}
