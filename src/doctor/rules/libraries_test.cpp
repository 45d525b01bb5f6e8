#include <doctest/doctest.h>

#include <cerrno>

#include "doctor/diagnose.hpp"

using namespace berth::doctor;

namespace {

Facts healthy() {
  Facts facts;
  facts.machine.modules = std::vector<std::string>{"nvidia", "nvidia_uvm"};
  const std::string folder = "/usr/lib/x86_64-linux-gnu/";
  facts.libraries.cuda =
      FoundLibrary{"libcuda.so.1", folder + "libcuda.so.1", folder + "libcuda.so.570.124.06",
                   "570.124.06", "/etc/ld.so.cache"};
  return facts;
}

std::string first(const Facts& facts) {
  const auto found = diagnose_with(library_rules(), facts, {}).findings;
  return found.empty() ? "" : found.front().id;
}

}  // namespace

TEST_CASE("a loaded driver misses its library, a machine without one does not") {
  Facts facts = healthy();
  CHECK(first(facts).empty());
  facts.libraries.cuda = {};
  CHECK(first(facts) == "LIB01");
  facts.machine.modules = std::vector<std::string>{"ext4"};
  CHECK(first(facts).empty());
  facts.machine.modules = Unreadable{"/proc/modules", EACCES};
  CHECK(first(facts).empty());
  CHECK(diagnose_with(library_rules(), facts, {}).not_checked.size() == 1);
}

TEST_CASE("a stub on the loader's path is told apart from the driver's library") {
  Facts facts = healthy();
  FoundLibrary stub = *facts.libraries.cuda;
  stub.resolved = "/usr/local/cuda-12.4/targets/x86_64-linux/lib/stubs/libcuda.so";
  facts.libraries.cuda = stub;
  CHECK(first(facts) == "LIB02");
}
