#include "guard/self_test.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "guard/limits_page.hpp"

using berth::guard::LimitsPage;
using berth::guard::read_self_test;

namespace {

berth::wire::guard::Limits some_limits() {
  berth::wire::guard::Limits limits{};
  limits.magic = berth::wire::guard::kLimitsMagic;
  limits.version = berth::wire::guard::kVersion;
  limits.devices = 2;
  limits.device[0].memory_bytes = 1000;
  limits.device[0].permille = 300;
  limits.device[1].memory_bytes = berth::wire::guard::kNoLimit;
  return limits;
}

}  // namespace

TEST_CASE("what a self-test wrote is read, and what is damaged or missing is no result") {
  const auto test = read_self_test(
      "check\ttotal\t1\ncheck\tover\t0\ncheck\tcuMemCreate\t-\nunknown\tcuMemAllocTomorrow\n"
      "check\tcut");
  REQUIRE(test.checks.size() == 3);
  CHECK(test.checks[0].holds == true);
  CHECK(test.checks[1].holds == false);
  CHECK(!test.checks[2].holds);
  CHECK(test.unknown == std::vector<std::string>{"cuMemAllocTomorrow"});
  CHECK(test.step.empty());
  const auto failed = read_self_test("check\tpath dlsym\t1\nfailed\tcuInit\t100\n");
  CHECK(failed.step == "cuInit");
  CHECK(failed.error == 100);
  CHECK(read_self_test("").checks.empty());
}

TEST_CASE("limits change for who has them mapped, and nobody else can write them") {
  auto page = LimitsPage::make(some_limits());
  REQUIRE(page);
  const int file = ::open(page->path().c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(file >= 0);
  constexpr std::size_t kSize = sizeof(berth::wire::guard::Limits);
  void* where = ::mmap(nullptr, kSize, PROT_READ, MAP_SHARED, file, 0);
  REQUIRE(where != MAP_FAILED);
  const auto& seen = *static_cast<const berth::wire::guard::Limits*>(where);
  page->set_memory(2000);
  page->set_share(500);
  page->set_hidden(0, 7);
  page->set_hidden(99, 7);
  page->answer(42);
  CHECK(seen.device[0].memory_bytes == 2000);
  CHECK(seen.device[0].permille == 500);
  CHECK(seen.device[0].hidden_bytes == 7);
  CHECK(seen.answered == 42);
  // Limits that the job did not ask for do not appear.
  CHECK(seen.device[1].memory_bytes == berth::wire::guard::kNoLimit);
  CHECK(seen.device[1].permille == 0);
  CHECK(::mprotect(where, kSize, PROT_READ | PROT_WRITE) != 0);
  // Opening it to write may succeed for root; writing does not.
  if (const int other = ::open(page->path().c_str(), O_RDWR | O_CLOEXEC); other >= 0) {
    CHECK(::write(other, "x", 1) < 0);
    CHECK(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0) == MAP_FAILED);
    CHECK(::ftruncate(other, 0) != 0);
    ::close(other);
  }
  ::munmap(where, kSize);
  ::close(file);
}
