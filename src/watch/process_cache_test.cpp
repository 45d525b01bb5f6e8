#include "watch/process_cache.hpp"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include "system/temporary_tree.hpp"

using namespace berth;
using namespace berth::watch;

namespace {

/// A folder with a recorded /proc.
struct Proc {
  system::TemporaryTree tree;

  void put(int pid, const char* name, int parent, int start) const {
    tree.put("proc/" + std::to_string(pid) + "/stat",
             fmt::format("{} ({}) S {} 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 {} 4096 1\n", pid, name,
                         parent, start));
  }
  [[nodiscard]] ProcessCache cache() const { return {tree.roots(), true}; }
};

/// Returns the parents as text: "12<10" means that the parent of 12 is 10.
std::string parents(ProcessCache& cache, std::initializer_list<std::int64_t> pids) {
  std::vector<model::DeviceProcess> rows;
  for (const std::int64_t pid : pids) {
    rows.emplace_back();
    rows.back().device = 0;
    rows.back().host_pid = pid;
  }
  cache.fill(rows, ProcessCache::Clock::now());
  std::string all;
  for (const model::DeviceProcess& row : rows)
    if (row.parent) all += fmt::format("{}<{} ", row.pid.value_or(0), *row.parent);
  return all;
}

}  // namespace

TEST_CASE("ancestors are found through processes that use no device, and remembered") {
  const Proc proc;
  proc.put(12, "a) b", 11, 9);
  proc.put(11, "sh", 10, 8);
  proc.put(10, "python", 1, 7);
  ProcessCache cache = proc.cache();
  CHECK(parents(cache, {10, 12}) == "12<10 ");
  proc.put(12, "a", 1, 9);
  CHECK(parents(cache, {10, 12}) == "12<10 ");
  CHECK(parents(cache, {12}).empty());
}

TEST_CASE("a parent that appears in the list later is found") {
  const Proc proc;
  proc.put(12, "a", 10, 9);
  proc.put(10, "python", 1, 7);
  ProcessCache cache = proc.cache();
  CHECK(parents(cache, {12}).empty());
  CHECK(parents(cache, {10, 12}) == "12<10 ");
}

TEST_CASE("a process with the reused pid of a parent is not the parent") {
  const Proc proc;
  proc.put(12, "a", 10, 9);
  proc.put(10, "python", 12, 15);
  ProcessCache cache = proc.cache();
  CHECK(parents(cache, {10, 12}) == "10<12 ");
}

TEST_CASE("an idle process is read less often, until it works again") {
  const Proc proc;
  const auto put = [&](int ticks) {
    proc.tree.put("proc/12/stat",
                  fmt::format("12 (a) S 1 1 1 0 -1 0 0 0 0 0 {} 0 0 0 20 0 1 0 9 4096 1\n", ticks));
  };
  put(100);
  ProcessCache cache = proc.cache();
  auto now = ProcessCache::Clock::now();
  const auto percent = [&] {
    std::vector<model::DeviceProcess> rows(1);
    rows[0].host_pid = 12;
    cache.fill(rows, now += std::chrono::seconds(2));
    return rows[0].cpu_percent.value_or(-1);
  };
  for (int i = 0; i < 8; ++i) static_cast<void>(percent());
  put(700);
  int calls = 1;
  double seen = percent();
  for (; seen == 0 && calls < 10; ++calls) seen = percent();
  CHECK(calls > 1);
  CHECK(calls <= 3);
  CHECK(seen > 90);
  CHECK(percent() == 0);  // no longer idle, so it is read at every call
}
