#include "compare/operators.hpp"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

using namespace berth::compare;

TEST_CASE("the operators of a profile are read, with times that make sense") {
  const auto found = parse_operators(
      R"({"operators":[{"name":"aten::addmm","calls":3,"cpu_seconds":1.5,"device_seconds":0.25},)"
      R"({"name":"bad","calls":3,"cpu_seconds":-1,"device_seconds":0},)"
      R"({"name":"","calls":3,"cpu_seconds":1,"device_seconds":0}]})");
  REQUIRE(found.size() == 1);
  CHECK(found[0].name == "aten::addmm");
  CHECK(found[0].calls == 3);
  CHECK(found[0].cpu_seconds == 1.5);
  CHECK(found[0].device_seconds == 0.25);
}

TEST_CASE("files that are no profile have no operators") {
  for (const char* json : {"", "{", "[]", "{}", "{\"operators\":3}", "{\"operators\":[3]}",
                           "{\"operators\":[{\"name\":1,\"calls\":1,\"cpu_seconds\":1}]}"})
    CHECK(parse_operators(json).empty());
}

TEST_CASE("of several processes, that with the most time counts, and no link is followed") {
  namespace fs = std::filesystem;
  char name[] = "/tmp/berth-operators-XXXXXX";
  const fs::path folder = ::mkdtemp(name);
  const auto profile = [](const char* operation, const char* seconds) {
    return std::string(R"({"operators":[{"name":")") + operation +
           R"(","calls":1,"device_seconds":0,"cpu_seconds":)" + seconds + "}]}";
  };
  std::ofstream(folder / "operators-1.json") << profile("short", "1");
  std::ofstream(folder / "operators-2.json") << profile("long", "2");
  std::ofstream(folder / "elsewhere") << profile("linked", "9");
  fs::create_symlink(folder / "elsewhere", folder / "operators-3.json");
  const auto found = take_operators(folder.string());
  REQUIRE(found.size() == 1);
  CHECK(found[0].name == "long");
  CHECK(take_operators(folder.string()).empty());
  fs::remove_all(folder);
}
