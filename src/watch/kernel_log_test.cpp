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
  CHECK(events[0].event.device == "0000:03:00");
  CHECK(events[0].event.code == 79);
  CHECK(events[0].is_new);
  const auto age = std::int64_t{::time(nullptr)} * 1000 - events[0].event.unix_milliseconds;
  CHECK(age > 5'000);
  CHECK(age < 600'000);
  CHECK(reader.take().empty());
  log << "3,5," << stamp(0) << ",-;NVRM: Xid (0000:03:00): 31, Ch 1\n" << std::flush;
  CHECK(reader.take().size() == 1);
}

TEST_CASE("what an earlier program has read is not new, until the machine is started again") {
  const system::TemporaryTree folder;
  folder.put("boot_id", "5f0a\n");
  const std::string file = folder.path + "/kmsg", boot = folder.path + "/boot_id";
  std::ofstream log(file);
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const auto write = [&](int number, int code) {
    log << "3," << number << "," << now.tv_sec * 1'000'000
        << ",-;NVRM: Xid (PCI:0000:03:00): " << code << "\n"
        << std::flush;
  };
  // Returns the code of each Xid; the code is negative if the Xid is not new.
  const auto read = [&](KernelLog& log) {
    std::vector<int> codes;
    for (const LoggedXid& one : log.take())
      codes.push_back(one.is_new ? one.event.code : -one.event.code);
    return codes;
  };
  write(7, 31);
  KernelLog first(file, boot);
  CHECK(read(first) == std::vector{31});
  CHECK(first.position() == LogPosition{"5f0a", 7});
  write(8, 79);
  KernelLog second(file, boot, first.position());
  CHECK(read(second) == std::vector{-31, 79});
  write(9, 79);
  CHECK(read(second) == std::vector{79});
  folder.put("boot_id", "9b11\n");
  KernelLog third(file, boot, second.position());
  CHECK(read(third) == std::vector{31, 79, 79});
  // If the boot's id cannot be read, all records count as new.
  KernelLog without(file, "/no/such/file", {"", 100});
  CHECK(read(without) == std::vector{31, 79, 79});
}

TEST_CASE("what a process has put into the kernel log is not an Xid") {
  const system::TemporaryTree folder;
  const std::string file = folder.path + "/kmsg";
  std::ofstream log(file);
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::string time = std::to_string(now.tv_sec * 1'000'000);
  const auto write = [&](const std::string& priority, const std::string& text) {
    log << priority << ",1," << time << ",-;" << text << "\n" << std::flush;
  };
  KernelLog reader(file);
  write("6", "a[1]: segfault at 0 error 4 in NVRM: Xid (PCI:0000:03:00): 79, pid=1[400000+1000]");
  write("6", "NVRM: Xid (PCI:[1]: segfault at 0 in x): 79");
  // Any process may write such a record to /dev/kmsg, with facility 1.
  write("12", "NVRM: Xid (PCI:0000:03:00): 79, pid=1");
  write("3", "NVRM: Xid (PCI:0000:03): 79, pid=1");
  write("3", "NVRM: Xid (PCI:0): 79, pid=1");
  write("3", "NVRM: Xid (PCI:0000:03:00): 1025, pid=1");
  write("3", "NVRM: Xid (PCI:0000:03:00): -1, pid=1");
  CHECK(reader.take().empty());
  write("3", "NVRM: Xid (PCI:0000:03:00): 79, pid=1");
  CHECK(reader.take().size() == 1);
}

TEST_CASE("a kernel log that may not be read has no events") {
  KernelLog reader("/no/such/file");
  CHECK_FALSE(reader.is_open());
  CHECK(reader.take().empty());
}
