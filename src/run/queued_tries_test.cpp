#include "run/queued_tries.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include "run/queued.hpp"
#include "system/temporary_tree.hpp"

using berth::Descriptor;
using berth::run::EarlierTries;
using berth::run::keep_tries;
using berth::run::open_tries_for;
using berth::run::read_earlier_tries;
using berth::run::tries_of;
using berth::run::write_next_try;
using berth::system::TemporaryTree;
namespace model = berth::model;

namespace {

EarlierTries one_try() {
  EarlierTries earlier;
  model::Try& one = earlier.tries.all.emplace_back();
  one.kind = model::TryClass::kDeviceFault;
  one.evidence = "GPU 1: lost \xff";
  one.exit_code = 1;
  earlier.tries.most_tries = 4;
  earlier.change = model::TryChange::kOtherDevice;
  earlier.batch_scale = 0.5;
  earlier.without = {"GPU-1"};
  earlier.ended_unix_milliseconds = 1'700'000'000'000;
  earlier.wall = std::chrono::seconds(3);
  earlier.cpu = std::chrono::seconds(2);
  earlier.peak_rss_bytes = 4096;
  model::DeviceUse& use = earlier.devices.emplace_back();
  use.device = 1;
  use.words = "GPU 1 \xff";
  use.memory_peak_bytes = 5;
  use.energy_millijoules = model::Absence::kNotSupported;
  earlier.device_wall = std::chrono::seconds(3);
  earlier.held_seconds = 6;
  return earlier;
}

}  // namespace

TEST_CASE("the tries of one start are there at the next, and only if the job goes back") {
  const TemporaryTree tree;
  const std::string files = tree.path + "/7";
  const Descriptor first = open_tries_for(files);
  REQUIRE(first);
  CHECK_FALSE(read_earlier_tries(first));
  CHECK_FALSE(keep_tries(first, files));
  CHECK(::access(tries_of(files).c_str(), F_OK) != 0);
  REQUIRE(write_next_try(first, one_try()));
  CHECK(keep_tries(first, files));

  const Descriptor second = open_tries_for(files);
  CHECK_FALSE(keep_tries(second, files));  // the second try has not asked for another one
  const auto back = read_earlier_tries(second);
  REQUIRE(back);
  REQUIRE(back->tries.all.size() == 1);
  CHECK(back->tries.all[0].kind == model::TryClass::kDeviceFault);
  CHECK(back->tries.all[0].exit_code == 1);
  CHECK(back->tries.most_tries == 4);
  CHECK(back->change == model::TryChange::kOtherDevice);
  CHECK(back->batch_scale == 0.5);
  CHECK(back->without == std::vector<std::string>{"GPU-1"});
  CHECK(back->ended_unix_milliseconds == 1'700'000'000'000);
  CHECK(back->wall == std::chrono::seconds(3));
  CHECK(back->cpu == std::chrono::seconds(2));
  CHECK(back->peak_rss_bytes == 4096);
  REQUIRE(back->devices.size() == 1);
  CHECK(back->devices[0].device == 1);
  CHECK(*back->devices[0].memory_peak_bytes == 5);
  CHECK_FALSE(back->devices[0].energy_millijoules);
  CHECK(back->devices[0].energy_millijoules.why == model::Absence::kNotSupported);
  CHECK(back->held_seconds == 6);
  berth::run::remove_files(files);
  CHECK(::access(tries_of(files).c_str(), F_OK) != 0);
}

TEST_CASE("other content of the file counts as no earlier try") {
  const TemporaryTree tree;
  for (const char* bad : {"=", "=[]", "={}", "=null", "={\"tries\":5}", "no",
                          R"(={"tries":"{}","change":0,"batch_scale":1,"without":[]})"}) {
    tree.put("8.tries", bad);
    const Descriptor file = open_tries_for(tree.path + "/8");
    CHECK_FALSE(read_earlier_tries(file));
    CHECK_FALSE(keep_tries(file, tree.path + "/8"));
  }
  CHECK_FALSE(read_earlier_tries(Descriptor()));
  CHECK_FALSE(write_next_try(Descriptor(), one_try()));
}
