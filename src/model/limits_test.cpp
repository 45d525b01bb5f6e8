#include "model/limits.hpp"

#include <sys/resource.h>

#include <doctest/doctest.h>

using berth::model::filled;
using berth::model::kNoLimit;
using berth::model::limit_name;
using berth::model::limit_of;
using berth::model::Limits;
using berth::model::within;

TEST_CASE("every resource of the kernel has a name that leads back to it") {
  for (int resource = 0; resource < RLIMIT_NLIMITS; ++resource) {
    REQUIRE_FALSE(limit_name(resource).empty());
    CHECK(limit_of(limit_name(resource)) == resource);
  }
  CHECK_FALSE(limit_of("gpus"));
  CHECK_FALSE(limit_of(""));
}

TEST_CASE("requested limits never exceed the caller's own") {
  const Limits had{{{RLIMIT_NOFILE, 500, 1000}, {RLIMIT_AS, 7, 7}}, 5};
  const Limits told = within({{{RLIMIT_NOFILE, 4000, kNoLimit}, {RLIMIT_CPU, 1, 2}}, -20}, had);
  REQUIRE(told.resources.size() == 2);
  CHECK(told.resources[0].soft == 1000);
  CHECK(told.resources[0].hard == 1000);
  CHECK(told.resources[1].soft == 1);
  CHECK(told.resources[1].hard == 2);
  CHECK(told.nice == 5);
}

TEST_CASE("a lower limit stands, and a soft one is never above its hard one") {
  const Limits told = within({{{RLIMIT_NOFILE, 300, 200}}, 10}, {{{RLIMIT_NOFILE, 1, 1000}}, 5});
  CHECK(told.resources[0].soft == 200);
  CHECK(told.resources[0].hard == 200);
  CHECK(told.nice == 10);
}

TEST_CASE("a request cannot widen the affinity or lower the OOM score") {
  Limits had;
  had.cpus = {2, 3};
  had.oom_score_adj = 100;
  had.no_new_privileges = true;
  Limits asked;
  asked.cpus = {0, 1, 2};
  asked.oom_score_adj = -500;
  const Limits told = within(asked, had);
  CHECK(told.cpus == std::vector{2});
  CHECK(told.oom_score_adj == 100);
  CHECK(told.no_new_privileges);
  asked.cpus = {0};
  CHECK(within(asked, had).cpus == had.cpus);
}

TEST_CASE("an omitted limit still applies") {
  const Limits whole =
      filled({{{RLIMIT_CPU, 1, 2}}, {}}, {{{RLIMIT_CPU, 9, 9}, {RLIMIT_AS, 7, 8}}, 3});
  REQUIRE(whole.resources.size() == 2);
  CHECK(whole.resources[0].hard == 2);
  CHECK(whole.resources[1].resource == RLIMIT_AS);
  CHECK(whole.resources[1].hard == 8);
  CHECK(whole.nice == 3);
}
