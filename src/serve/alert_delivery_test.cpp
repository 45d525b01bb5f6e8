#include "serve/alert_delivery.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <mutex>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "system/temporary_tree.hpp"

using namespace berth;
using namespace berth::serve;

namespace {

watch::Alert alert(const std::string& rule) {
  watch::Alert alert;
  alert.rule = rule;
  alert.severity = "critical";
  alert.device = "GPU-1";
  alert.place = "0000:01:00.0";
  alert.index = 0;
  alert.message = rule;
  return alert;
}

bool comes(const std::function<bool()>& what) {
  for (int i = 0; i < 6000; ++i) {
    if (what()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

struct Bench {
  system::TemporaryTree folder;
  std::mutex mutex;
  std::vector<std::string> notes;

  /// A command that runs this script with the event's name and rule as $1 and $2.
  AlertDeliveryOptions options(const std::string& script) {
    AlertTarget target;
    target.command = {"/bin/sh", "-c",      "cd " + folder.path + " && " + script,
                      "sh",      "{event}", "{rule}"};
    return {.targets = {target},
            .state_file = folder.path + "/alerts.json",
            .note =
                [this](const std::string& sentence) {
                  const std::lock_guard hold(mutex);
                  notes.push_back(sentence);
                },
            .first_pause = std::chrono::milliseconds(20)};
  }
  [[nodiscard]] std::string got() const { return slurp(folder.path + "/got").value_or(""); }
  std::size_t note_count() {
    const std::lock_guard hold(mutex);
    return notes.size();
  }
  static std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace

TEST_CASE("a command gets the begin and the end of an alert, in order") {
  Bench bench;
  AlertDelivery delivery(bench.options("cat >>said; echo $1 $2 >>got"));
  delivery.add({{alert("hot")}, {}}, {alert("hot")}, Bench::now());
  delivery.add({{}, {alert("hot")}}, {}, Bench::now());
  CHECK(comes([&] { return bench.got() == "begun hot\nended hot\n"; }));
  CHECK(slurp(bench.folder.path + "/said")->find("alert ended: hot\n") != std::string::npos);
}

TEST_CASE("an alert reaches the terminal of a process on the device, and nobody without one") {
  const Descriptor terminal(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(::grantpt(terminal.get()) == 0);
  REQUIRE(::unlockpt(terminal.get()) == 0);
  std::array<char, 64> name{};
  REQUIRE(::ptsname_r(terminal.get(), name.data(), name.size()) == 0);
  std::array<int, 2> ready{};
  REQUIRE(::pipe(ready.data()) == 0);
  const pid_t process = ::fork();
  if (process == 0) {
    // In a new session, the terminal that is opened next becomes the controlling terminal.
    ::setsid();
    const bool is_open = ::open(name.data(), O_RDWR) >= 0;
    if (::write(ready[1], is_open ? "1" : "0", 1) == 1) ::pause();
    ::_exit(0);
  }
  char is_open = '0';
  REQUIRE(::read(ready[0], &is_open, 1) == 1);
  REQUIRE(is_open == '1');
  AlertTarget target;
  target.terminals = true;
  AlertEvent event{AlertEvent::Kind::kBegun, alert("hot\x1b[2J"), Bench::now(), "lab1"};
  const std::atomic<bool> goes_on = false;
  CHECK(deliver(target, event, goes_on));  // there is no owner to notify
  event.alert.owners = {{"nobody-here", ::geteuid() + 1, {process}}};
  CHECK(deliver(target, event, goes_on));  // not sent: the terminal belongs to another user
  event.kind = AlertEvent::Kind::kTest;
  CHECK_FALSE(deliver(target, event, goes_on));
  event.kind = AlertEvent::Kind::kBegun;
  event.alert.owners[0].uid = ::geteuid();
  CHECK(deliver(target, event, goes_on));
  std::array<char, 512> said{};
  const ssize_t size = ::read(terminal.get(), said.data(), said.size());
  REQUIRE(size > 0);
  const std::string line(said.data(), static_cast<std::size_t>(size));
  CHECK(line.find("\nlab1: alert: hot") != std::string::npos);
  CHECK(line.find('\x1b') == std::string::npos);
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("what fails is tried again, with one note, and the next waits for it") {
  Bench bench;
  AlertDelivery delivery(bench.options("echo no network >&2; test -e up && echo $2 >>got"));
  delivery.add({{alert("first"), alert("second")}, {}}, {}, Bench::now());
  CHECK(comes([&] { return bench.note_count() > 0; }));
  CHECK(bench.notes.at(0).find("no network") != std::string::npos);
  CHECK(bench.got().empty());
  std::ofstream(bench.folder.path + "/up") << "1";
  CHECK(comes([&] { return bench.got() == "first\nsecond\n"; }));
  CHECK(bench.note_count() == 1);
}

TEST_CASE("two equal targets keep what waits for each of them over a restart") {
  Bench bench;
  AlertDeliveryOptions options = bench.options("test -e up && echo $2 >>got");
  options.targets.push_back(options.targets.front());
  options.targets.push_back(options.targets.front());
  options.targets.back().least_severity = 2;
  CHECK(options.targets[0].key() == options.targets[1].key());
  CHECK(options.targets[0].key() != options.targets[2].key());
  {
    AlertDelivery delivery(options);
    watch::Alert mild = alert("mild");
    mild.severity = "warning";
    delivery.add({{alert("waiting"), mild}, {}}, {}, Bench::now());
  }
  std::ofstream(bench.folder.path + "/up") << "1";
  AlertDelivery again(options);
  CHECK(comes([&] {
    const std::string got = bench.got();
    return std::count(got.begin(), got.end(), '\n') == 5;
  }));
}

TEST_CASE("a restart delivers what waited, and nothing twice") {
  Bench bench;
  {
    AlertDelivery delivery(bench.options("test $2 = delivered && echo $2 >>got"));
    delivery.add({{alert("delivered"), alert("waiting")}, {}},
                 {alert("delivered"), alert("waiting")}, Bench::now());
    CHECK(comes([&] { return bench.note_count() > 0; }));
    CHECK(bench.got() == "delivered\n");
  }
  struct stat status = {};
  REQUIRE(::stat((bench.folder.path + "/alerts.json").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777U) == 0600);
  AlertDelivery again(bench.options("test $2 = delivered && echo $2 >>got"));
  const auto restored = again.restored();
  REQUIRE(restored.size() == 2);
  CHECK(restored[1].rule == "waiting");
  CHECK(restored[1].place == "0000:01:00.0");
  CHECK(comes([&] { return bench.note_count() > 1; }));
  CHECK(bench.got() == "delivered\n");
}

TEST_CASE("what was read of the kernel log, and when an Xid last came, are known after a restart") {
  Bench bench;
  watch::Alert xid = alert("xid_79");
  xid.since_unix_milliseconds = 1000;
  {
    AlertDelivery delivery(bench.options("true"));
    CHECK(delivery.restored_log() == watch::LogPosition{});
    delivery.add({{xid}, {}}, {xid}, Bench::now(), {"5f0a", 7});
    xid.last_unix_milliseconds = 2000;
    delivery.add({{}, {}, true}, {xid}, Bench::now(), {"5f0a", 9});
    delivery.add({}, {}, Bench::now());  // no change
  }
  AlertDelivery again(bench.options("true"));
  CHECK(again.restored_log() == watch::LogPosition{"5f0a", 9});
  REQUIRE(again.restored().size() == 1);
  CHECK(again.restored()[0].last_unix_milliseconds == 2000);
}

TEST_CASE("a command that hangs does not hold up the end of the daemon, or another target") {
  Bench bench;
  AlertDeliveryOptions options = bench.options("echo $2 >>got; sleep 1000 & sleep 1000");
  options.targets.push_back(bench.options("echo $2 >>other").targets.at(0));
  const auto begun = std::chrono::steady_clock::now();
  {
    AlertDelivery delivery(options);
    delivery.add({{alert("hot")}, {}}, {}, Bench::now());
    CHECK(comes([&] { return bench.got() == "hot\n"; }));
    CHECK(comes([&] { return slurp(bench.folder.path + "/other") == "hot\n"; }));
  }
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(50));
}

TEST_CASE("a program that is not there, or a day without success, is said") {
  Bench bench;
  AlertDeliveryOptions options = bench.options("");
  options.targets.at(0).command = {"/no/such/program"};
  AlertDelivery delivery(options);
  delivery.add({{alert("old")}, {}}, {}, Bench::now() - std::int64_t{25} * 3600 * 1000);
  CHECK(comes([&] { return bench.note_count() == 2; }));
  CHECK(bench.notes.at(0).find("no program /no/such/program") != std::string::npos);
  CHECK(bench.notes.at(1).find("dropped") != std::string::npos);
}

TEST_CASE("a file of alerts that was damaged or made up is not believed") {
  for (const char* text :
       {"", "{", "[]", "{\"active\":1,\"waiting\":{}}", "{\"active\":[{}],\"waiting\":{}}",
        "{\"active\":[],\"waiting\":[]}",
        R"({"active":[{"rule":"a","severity":"b","device":"c","place":"d","index":1e300,"user":"",
            "message":"","hint":"","since":0}],"waiting":{}})",
        R"({"active":[],"waiting":{},"kernel_log":5})",
        R"({"active":[],"waiting":{},"kernel_log":{"boot":7,"last":1}})",
        R"({"active":[],"waiting":{},"kernel_log":{"boot":"5f0a","last":1e300}})"}) {
    CAPTURE(text);
    Bench bench;
    std::ofstream(bench.folder.path + "/alerts.json") << text;
    const AlertDelivery delivery(bench.options("true"));
    CHECK(delivery.restored().empty());
    CHECK(delivery.restored_log() == watch::LogPosition{});
  }
}
