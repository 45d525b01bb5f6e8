// Tests the watch of ranks that use the processor all the time, with the time as a parameter.
#include "run/hang_watch.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/descriptor.hpp"

using namespace berth::run;
using std::chrono::seconds;

namespace {

/// A dump with one entry, as Python's pickle writes it: all_reduce 4 of default_pg, started.
constexpr const char kDump[] =
    "\200\002\175\161\000\130\007\000\000\000\145\156\164\162\151\145\163\161\001\135\161\002"
    "\175\161\003\050\130\016\000\000\000\160\162\157\146\151\154\151\156\147\137\156\141\155"
    "\145\161\004\130\017\000\000\000\156\143\143\154\072\141\154\154\137\162\145\144\165\143"
    "\145\161\005\130\021\000\000\000\143\157\154\154\145\143\164\151\166\145\137\163\145\161"
    "\137\151\144\161\006\113\004\130\006\000\000\000\151\163\137\160\062\160\161\007\211\130"
    "\015\000\000\000\160\162\157\143\145\163\163\137\147\162\157\165\160\161\010\130\001\000"
    "\000\000\060\161\011\130\012\000\000\000\144\145\146\141\165\154\164\137\160\147\161\012"
    "\206\161\013\130\005\000\000\000\163\164\141\164\145\161\014\130\007\000\000\000\163\164"
    "\141\162\164\145\144\161\015\165\141\163\056";

/// Uses the CPU until the watch must see this process as active in the period `time`.
void work(seconds time) {
  const Movement begun = movement_of(::getpid());
  while (!has_moved(begun, movement_of(::getpid()), static_cast<double>(time.count() + 1))) {
  }
}

}  // namespace

TEST_CASE("a rank that was stuck in a collective and writes output again does not hang") {
  namespace fs = std::filesystem;
  char name[] = "/tmp/berth-watch-XXXXXX";
  const fs::path folder = ::mkdtemp(name);
  const std::string stem = (folder / "fr-").string();
  REQUIRE(::mkfifo((stem + "0.pipe").c_str(), 0600) == 0);
  const berth::Descriptor pipe(::open((stem + "0.pipe").c_str(), O_RDWR | O_CLOEXEC));
  std::thread recorder([&] {
    for (char asked = 0; ::read(pipe.get(), &asked, 1) == 1 && asked != 'q';) {
      std::ofstream(stem + "new", std::ios::binary).write(kDump, sizeof kDump - 1);
      fs::rename(stem + "new", stem + "0");
    }
  });
  const auto is_answered = [&] {
    while (!fs::exists(stem + "0")) std::this_thread::yield();
    return true;
  };
  HangWatch watch;
  auto now = HangWatch::Clock::now();
  watch.begin("", stem, now);
  std::uint64_t written = 0;
  const auto look = [&](seconds later) {
    work(later);
    return watch.look({{0, ::getpid(), written}}, false, now += later);
  };
  CHECK_FALSE(look(seconds(10)));  // requests a dump
  CHECK(is_answered());
  CHECK_FALSE(look(seconds(3)));  // reads the answer
  CHECK_FALSE(look(seconds(6)));
  CHECK(is_answered());
  CHECK_FALSE(watch.is_hanging());
  const auto hang = look(seconds(3));  // nothing has changed
  REQUIRE(hang);
  CHECK(hang->ranks.at(0).collective->number == 4);
  CHECK(watch.is_hanging());
  CHECK(watch.has_hung_for(seconds(11), now));
  written = 100;
  CHECK_FALSE(look(seconds(1)));
  CHECK_FALSE(watch.is_hanging());
  CHECK_FALSE(watch.has_hung_for(seconds(1), now + seconds(600)));
  CHECK(::write(pipe.get(), "q", 1) == 1);
  recorder.join();
  fs::remove_all(folder);
}
