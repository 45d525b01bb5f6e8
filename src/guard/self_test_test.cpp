#include "guard/self_test.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "guard/container.hpp"
#include "guard/context_cost.hpp"
#include "guard/limits_page.hpp"

using berth::guard::context_cost;
using berth::guard::LimitsPage;
using berth::guard::read_self_test;
using berth::guard::remember_context_cost;

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

bool knows_the_seal() {
  constexpr int kFutureWrite = 0x0010;
  const int file = ::memfd_create("berth-seal", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(file >= 0);
  const bool knows = ::fcntl(file, F_ADD_SEALS, kFutureWrite) == 0;
  ::close(file);
  return knows;
}

}  // namespace

TEST_CASE("what a self-test wrote is read, and what is damaged or missing is not a result") {
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

TEST_CASE("the least that a context took is kept, and no figure that no context can have") {
  std::string folder = (std::filesystem::temp_directory_path() / "berth-guard-XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  ::setenv("BERTH_STATE_DIR", folder.c_str(), 1);
  remember_context_cost("GPU-1", "550.54", 3ULL << 30U);
  CHECK(!context_cost("GPU-1", "550.54"));
  remember_context_cost("GPU-1", "550.54", 300U << 20U);
  remember_context_cost("GPU-1", "550.54", 400U << 20U);
  CHECK(context_cost("GPU-1", "550.54") == 300U << 20U);
  CHECK(!context_cost("GPU-1", "560.35"));
  ::unsetenv("BERTH_STATE_DIR");
  std::filesystem::remove_all(folder);
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
  // A device that had no limit before still has none.
  CHECK(seen.device[1].memory_bytes == berth::wire::guard::kNoLimit);
  CHECK(seen.device[1].permille == 0);
  CHECK(::mprotect(where, kSize, PROT_READ | PROT_WRITE) != 0);
  // The job runs as the same user, so it can change the mode. The seals still prevent writes.
  REQUIRE(::chmod(page->path().c_str(), 0600) == 0);
  const int other = ::open(page->path().c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(other >= 0);
  CHECK(::ftruncate(other, 0) != 0);
  if (knows_the_seal()) {
    CHECK(::write(other, "x", 1) < 0);
    CHECK(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0) == MAP_FAILED);
  } else {
    MESSAGE("not checked: this kernel (before 5.1) lacks F_SEAL_FUTURE_WRITE");
  }
  ::close(other);
  ::munmap(where, kSize);
  ::close(file);
}

TEST_CASE("a container whose limits the guard cannot hold gets no files") {
  char made[] = "/tmp/berth-container-XXXXXX";
  REQUIRE(::mkdtemp(made) != nullptr);
  const std::string folder = made;
  const auto files_for = [&](const std::map<std::string, std::uint64_t>& limits) {
    return berth::guard::files_for_container(folder + "/files", folder + "/lib", limits);
  };
  std::map<std::string, std::uint64_t> limits;
  for (std::uint32_t i = 0; i < berth::wire::guard::kMaxDevices; ++i)
    limits["GPU-00000000-0000-4000-8000-0000000000" + std::to_string(10 + i)] = 1U << 30U;
  CHECK(files_for(limits));
  auto odd = limits;
  odd.erase(odd.begin());
  odd["GPU-of-nobody"] = 1;
  CHECK(files_for(odd).error().id == std::string("E1032"));
  limits["GPU-00000000-0000-4000-8000-0000000000ff"] = 1;
  CHECK(files_for(limits).error().id == std::string("E1032"));
  std::filesystem::remove_all(folder);
}
