#include "guard/live.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

TEST_CASE("a process has the guard if one of its pids, in any namespace, has counters") {
  std::string proc = (std::filesystem::temp_directory_path() / "berth-proc-XXXXXX").string();
  REQUIRE(::mkdtemp(proc.data()) != nullptr);
  for (const auto& [pid, all] : {std::pair{"41", "41\t7"}, {"42", "42"}}) {
    std::filesystem::create_directory(proc + "/" + pid);
    std::ofstream(proc + "/" + pid + "/status") << "Name:\tpython3\nNSpid:\t" << all << "\n";
  }
  berth::guard::LiveJob job;
  job.processes.push_back({0, 7, 100, true, {}});
  CHECK_FALSE(berth::guard::lacks_guard(job, 41, proc));
  CHECK(berth::guard::lacks_guard(job, 42, proc));
  job.processes.push_back({1, 42, 100, false, {}});
  CHECK_FALSE(berth::guard::lacks_guard(job, 42, proc));
  // process 43 has ended
  CHECK_FALSE(berth::guard::lacks_guard(job, 43, proc));
  std::filesystem::remove_all(proc);
}
