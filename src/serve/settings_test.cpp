#include "serve/settings.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using berth::serve::parse_settings;
using berth::serve::read_settings;

TEST_CASE("settings define limits of users and how long jobs are kept") {
  const auto settings = parse_settings(R"(
mode = "warn"
admins = ["gpu-admins", "27"]
exempt_users = ["monitoring"]
half_life = "48h"
keep = "24h"
keep_output = "2GiB"
bench.every = "7d"
[everyone]
most_devices = 4
[mig]
manage = true
beside_jobs = true
[user.lin]
weight = 2
[user.zhao]
weight = 0.5
most_jobs = 10
most_devices = 1
)",
                                       "berth.toml");
  REQUIRE(settings);
  CHECK(settings->mode == "warn");
  CHECK(settings->admins == std::vector<std::string>{"gpu-admins", "27"});
  CHECK(settings->exempt_users.size() == 1);
  CHECK(settings->rules.half_life == std::chrono::hours(48));
  CHECK(settings->rules.aging == std::chrono::hours(24));
  CHECK(settings->keep == std::chrono::hours(24));
  CHECK(settings->keep_output_bytes == 2ULL << 30U);
  CHECK(settings->everyone.most_devices == 4);
  CHECK(settings->bench_every == std::chrono::hours(7 * 24));
  CHECK(settings->mig.manages);
  CHECK(settings->mig.beside_jobs);
  CHECK_FALSE(parse_settings("", "berth.toml")->mig.manages);
  CHECK(settings->users.at("lin").weight == 2);
  CHECK(settings->users.at("lin").most_devices == 4);
  CHECK(settings->users.at("zhao").weight == 0.5);
  CHECK(settings->users.at("zhao").most_jobs == 10);
  CHECK(settings->users.at("zhao").most_devices == 1);
}

TEST_CASE("invalid settings are refused with their line") {
  struct Case {
    const char *document, *id;
  };
  for (const Case& one :
       {Case{"mode = \"strict\"", "E0604"}, Case{"mode = 3", "E0604"},
        Case{"modus = \"warn\"", "E0603"}, Case{"keep = \"7\"", "E0605"},
        Case{"half_life = \"0s\"", "E0605"}, Case{"[user.lin]\nweight = 0", "E0605"},
        Case{"[user.lin]\nweight = \"2\"", "E0604"}, Case{"[user.lin]\nmost_devices = -1", "E0605"},
        Case{"[bench]\nevery = \"59m\"", "E0605"}, Case{"[bench]\nevery = 7", "E0604"},
        Case{"[bench]\noften = \"7d\"", "E0603"}, Case{"user = 3", "E0604"},
        Case{"[mig]\nbeside_jobs = true", "E0605"}, Case{"[mig]\nmanage = 1", "E0604"},
        Case{"[user]\nlin = 3", "E0604"}, Case{"[everyone", "E0602"}}) {
    CAPTURE(one.document);
    const auto settings = parse_settings(one.document, "berth.toml");
    REQUIRE_FALSE(settings);
    CHECK(settings.error().id == one.id);
    CHECK(settings.error().message.starts_with("berth.toml:"));
  }
}

TEST_CASE("settings that others can write are refused, and a missing file is fine") {
  char name[] = "/tmp/berth-settings-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const std::string file = folder + "/berth.toml";
  CHECK(read_settings(file, false)->mode == "observe");
  CHECK(read_settings(file, true).error().id == "E0925");
  std::ofstream(file) << "mode = \"warn\"\n";
  ::chmod(file.c_str(), 0644);
  CHECK(read_settings(file, true)->mode == "warn");
  ::chmod(file.c_str(), 0664);
  CHECK(read_settings(file, true).error().id == "E0925");
  CHECK(read_settings(folder, true).error().id == "E0925");
  std::filesystem::remove_all(folder);
}

TEST_CASE("the broker of one user reads only what it can use, and webhooks are for its eyes only") {
  CHECK(parse_settings("keep = \"24h\"\n[[alerts]]\ncommand = [\"true\"]", "a",
                       berth::serve::Audience::kOneUser));
  CHECK(parse_settings("mode = \"warn\"", "a", berth::serve::Audience::kOneUser).error().id ==
        "E0603");
  std::string folder = std::filesystem::temp_directory_path() / "berth-settings-XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::string file = folder + "/berth.toml";
  std::ofstream(file) << "[[alerts]]\nwebhook = \"https://hooks.example/secret\"\n";
  ::chmod(file.c_str(), 0644);
  CHECK(read_settings(file, true).error().id == "E0925");
  ::chmod(file.c_str(), 0600);
  CHECK(read_settings(file, true)->alerts.size() == 1);
  std::filesystem::remove_all(folder);
}

TEST_CASE("targets whose differences are secret are told apart by their place in the file") {
  const auto settings = parse_settings(
      "[[alerts]]\nwebhook = \"https://hooks.example/one\"\n"
      "[[alerts]]\ncommand = [\"mail\"]\n"
      "[[alerts]]\nwebhook = \"https://hooks.example/two\"\n",
      "a", berth::serve::Audience::kOneUser);
  REQUIRE(settings);
  CHECK(settings->alerts[0].shown() == "https://hooks.example ([[alerts]] number 1)");
  CHECK(settings->alerts[1].shown() == "mail");
  CHECK(settings->alerts[2].shown() == "https://hooks.example ([[alerts]] number 3)");
}
