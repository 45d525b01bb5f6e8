#include "system/process_text.hpp"

#include <doctest/doctest.h>

using namespace berth::system;

namespace {
/// The stat line of a training process with the given name.
std::string stat_line(std::string_view name) {
  return "4121 (" + std::string(name) +
         ") S 4100 4121 4100 34816 4121 4194304 12345 0 10 0 7000 500 1 2 20 0 33 0 123456 "
         "40960000000 2500000 18446744073709551615 1 1 0 0 0 0 0 16781312 134235371 0 0 0 17 5 0 0 "
         "0 "
         "0 0 0 0 0 0 0 0 0 0\n";
}
}  // namespace

TEST_CASE("a stat line is read whatever the process calls itself") {
  for (const std::string_view name :
       {"python", "tmux: server", "(sd-pam)", ") R 1 1 1", "a)b(c", "", "\xff\xfe", "two\nlines"}) {
    CAPTURE(name);
    const std::string line = stat_line(name);
    const auto stat = parse_stat(line);
    REQUIRE(stat);
    CHECK(stat->pid == 4121);
    CHECK(stat->name == name);
    CHECK(stat->state == 'S');
    CHECK(stat->cpu_ticks == 7500);
    CHECK(stat->threads == 33);
    CHECK(stat->start_ticks == 123456);
    CHECK(stat->rss_pages == 2500000);
    CHECK(!is_kernel_thread(*stat));
  }
}

TEST_CASE("a stat line that is cut or no stat line is refused") {
  const std::string line = stat_line("python");
  for (std::size_t length = 0; length < line.find("2500000"); ++length) {
    CAPTURE(length);
    CHECK(!parse_stat(std::string_view(line).substr(0, length)));
  }
  CHECK(!parse_stat(")("));
  CHECK(!parse_stat("x (python) S 1 1"));
  CHECK(!parse_stat("1 (python) SS 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"));
  CHECK(!parse_stat("1 (p) S 1 1 1 1 1 1 1 1 1 1 -7 1 1 1 1 1 1 1 1 1 1"));
}

TEST_CASE("a kernel thread is known by its flags") {
  const auto stat = parse_stat(
      "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 3 0 0 20 0 1 0 12 0 0 18446744073709551615 0 0");
  REQUIRE(stat);
  CHECK(is_kernel_thread(*stat));
}

TEST_CASE("status gives the effective user, the memory and the inner pids") {
  const StatusText status = parse_status(
      "Name:\tUid:\\n7\nUmask:\t0022\nUid:\t1000\t1001\t1000\t1000\nNSpid:\t4121\t17\t1\n"
      "VmHWM:\t     900 kB\nVmRSS:\t     812 kB\nThreads:\t1\n");
  CHECK(status.uid == 1001);
  CHECK(status.rss_bytes == 812 * 1024);
  CHECK(status.namespace_pids == std::vector<std::int64_t>{4121, 17, 1});
}

TEST_CASE("a status text that is cut or strange yields what is whole in it") {
  CHECK(!parse_status("").uid);
  CHECK(!parse_status("Uid:\t1000\t10").uid);
  CHECK(!parse_status("Uid:\tx\ty\n").uid);
  CHECK(!parse_status("VmRSS:\t99999999999999999999 kB\n").rss_bytes);
  CHECK(!parse_status("VmRSS:\t18446744073709551615 kB\n").rss_bytes);
  CHECK(parse_status("NSpid:\n").namespace_pids.empty());
}

TEST_CASE("arguments become one line that a terminal can take") {
  using namespace std::string_view_literals;
  CHECK(command_line("python\0train.py\0--lr\0001e-3\0"sv) == "python train.py --lr 1e-3");
  CHECK(command_line("nginx: worker process\0\0\0\0\0"sv) == "nginx: worker process");
  CHECK(command_line("sh\0-c\0echo a\necho b\0"sv) == "sh -c echo a echo b");
  CHECK(command_line("python\0训练.py\0"sv) == "python 训练.py");
  CHECK(command_line("a\0\xff\x1b[2J\0"sv) == "a \xEF\xBF\xBD\xEF\xBF\xBD[2J");
  CHECK(command_line(""sv).empty());
  CHECK(command_line("\0\0"sv).empty());
}

TEST_CASE("a user is found in a passwd file with odd lines") {
  const std::string_view passwd =
      "root:x:0:0:root:/root:/bin/bash\n+::::::\n:x:7:7:::\nbroken\nlin:x:1000:1000::/home/lin:/"
      "bin/sh\n"
      "zhao:x:1001";
  CHECK(user_in_passwd(passwd, 0) == "root");
  CHECK(user_in_passwd(passwd, 1000) == "lin");
  CHECK(user_in_passwd(passwd, 1001) == "zhao");
  CHECK(user_in_passwd(passwd, 7).empty());
  CHECK(user_in_passwd(passwd, 42).empty());
}
