#include "watch/kernel_log.hpp"

#include <doctest/doctest.h>

#include <ctime>
#include <fstream>

#include "system/temporary_tree.hpp"

using namespace berth;
using namespace berth::watch;

TEST_CASE("new Xids are read from the kernel log once, with their time") {
  const system::TemporaryTree folder;
  const std::string file = folder.path + "/kmsg";
  std::ofstream log(file);
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const auto stamp = [&](std::int64_t seconds_ago) {
    return std::to_string((now.tv_sec - seconds_ago) * 1'000'000);
  };
  log << "6,1," << stamp(0) << ",-;usb 1-1: new device\n"
      << "3,2," << stamp(10)
      << ",-;NVRM: Xid (PCI:0000:03:00): 79, pid=1, GPU has fallen off the bus.\n"
      << " SUBSYSTEM=pci\n"
      << "3,3,x,-;NVRM: Xid (PCI:0000:03:00): 31\n"
      << "3,4," << stamp(0) << ",-;NVRM: Xid (PCI:0000:03:00): none\n"
      << std::flush;
  KernelLog reader(file);
  const auto events = reader.take();
  REQUIRE(events.size() == 1);
  CHECK(events[0].device == "0000:03:00");
  CHECK(events[0].code == 79);
  const auto age = std::int64_t{::time(nullptr)} * 1000 - events[0].unix_milliseconds;
  CHECK(age > 5'000);
  CHECK(age < 600'000);
  CHECK(reader.take().empty());
  log << "3,5," << stamp(0) << ",-;NVRM: Xid (0000:03:00): 31, Ch 1\n" << std::flush;
  CHECK(reader.take().size() == 1);
}

TEST_CASE("a kernel log that may not be read has no events") {
  KernelLog reader("/no/such/file");
  CHECK_FALSE(reader.is_open());
  CHECK(reader.take().empty());
}
