#include "vendor/opencl/opencl.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "vendor/opencl/facts.hpp"

using namespace berth;
using namespace std::chrono_literals;

namespace {
opencl::Report ask_fake(const char* illness, std::chrono::milliseconds deadline = 20s) {
  ::setenv("FAKE_OPENCL", illness, 1);
  return opencl::Reader(FAKE_OPENCL_LIBRARY).finish(deadline);
}
}  // namespace

TEST_CASE("an OpenCL device with its memory, its address and its units") {
  const auto report = ask_fake("");
  CHECK(!report.error);
  REQUIRE(report.devices.size() == 1);
  const model::Device& device = report.devices[0];
  CHECK(device.kind == model::DeviceKind::kOpenCl);
  CHECK(device.name == "Fake \xEF\xBF\xBD[31m GPU");
  CHECK(device.vendor_name == "Fake Vendor");
  CHECK(device.pci_address == "0000:81:00.0");
  CHECK(device.readings.memory_total_bytes.value == 8ULL << 30);
  CHECK(!device.readings.memory_used_bytes);
  CHECK(device.health == model::Health::kOk);
  CHECK(device.note == "OpenCL platform Fake, driver 1.2.3, 60 compute units");
}

TEST_CASE("a platform that hangs is given up at the deadline") {
  const auto before = std::chrono::steady_clock::now();
  const auto report = ask_fake("hang", 200ms);
  const auto waited = std::chrono::steady_clock::now() - before;
  REQUIRE(report.error);
  CHECK(report.error->id == "E0702");
  CHECK(report.devices.empty());
  CHECK(waited >= 200ms);
  CHECK(waited < 10s);
}

TEST_CASE("a platform that makes progress gets more time") {
  // The platform needs more than 1 s, and sleeps nearly all of that time.
  const auto report = ask_fake("slow", 1s);
  CHECK(!report.error);
  CHECK(report.devices.size() == 1);
}

TEST_CASE("a platform that computes without end is given up") {
  const auto report = ask_fake("spin", 300ms);
  REQUIRE(report.error);
  CHECK(report.error->id == "E0702");
}

TEST_CASE("a platform that crashes or exits is reported, and we continue") {
  for (const char* illness : {"crash", "exit"}) {
    const auto report = ask_fake(illness);
    REQUIRE(report.error);
    CHECK(report.error->id == "E0703");
  }
}

TEST_CASE("no platform is not an error, and an impossible count is ignored") {
  const auto none = ask_fake("none");
  CHECK(!none.error);
  CHECK(none.devices.empty());
  const auto many = ask_fake("many");
  CHECK(!many.error);
  CHECK(many.devices.size() == 1);
}

TEST_CASE("a missing library is normal, a broken one is reported") {
  CHECK(!opencl::Reader("").finish(1s).error);
  const auto missing = opencl::Reader("/nonexistent/libOpenCL.so.1").finish(20s);
  CHECK(!missing.error);
  CHECK(missing.devices.empty());
  const auto path = std::filesystem::temp_directory_path() / "berth-garbage-opencl.so";
  std::ofstream(path) << "not a library";
  const auto garbage = opencl::Reader(path.string()).finish(20s);
  std::filesystem::remove(path);
  REQUIRE(garbage.error);
  CHECK(garbage.error->id == "E0701");
  const auto stranger = opencl::Reader("libc.so.6").finish(20s);
  REQUIRE(stranger.error);
  CHECK(stranger.error->id == "E0701");
}

TEST_CASE("a reader that is never used leaves no child process") {
  ::setenv("FAKE_OPENCL", "hang", 1);
  const auto before = std::chrono::steady_clock::now();
  { const opencl::Reader reader(FAKE_OPENCL_LIBRARY); }
  CHECK(std::chrono::steady_clock::now() - before < 10s);
}

TEST_CASE("bytes that our own child would never write are refused") {
  opencl::Facts facts;
  facts.loaded = true;
  facts.devices.resize(2);
  facts.devices[1].name = "x";
  const std::string good = opencl::encode(facts);
  REQUIRE(opencl::decode(good));
  CHECK(opencl::decode(good)->devices[1].name == "x");
  for (std::size_t cut = 0; cut < good.size(); ++cut)
    CHECK(!opencl::decode(std::string_view(good).substr(0, cut)));
  CHECK(!opencl::decode(good + "x"));
  CHECK(!opencl::decode(std::string(64, '\xff')));
}

TEST_CASE("looking leaves no file behind, neither in the cache nor in the temporary folder") {
  namespace fs = std::filesystem;
  std::string pattern = (fs::temp_directory_path() / "berth-test-XXXXXX").string();
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  ::setenv("TMPDIR", pattern.c_str(), 1);
  ::setenv("HOME", pattern.c_str(), 1);
  ::setenv("XDG_CACHE_HOME", (pattern + "/cache").c_str(), 1);
  static_cast<void>(opencl::Reader("libOpenCL.so.1").finish(60s));
  static_cast<void>(ask_fake("hang", 50ms));
  CHECK(fs::is_empty(pattern));
  ::unsetenv("TMPDIR");
  fs::remove_all(pattern);
}

TEST_CASE("a program that is killed while it looks leaves no file and no process behind") {
  namespace fs = std::filesystem;
  for (const int signal : {SIGKILL, SIGINT, SIGTERM}) {
    std::string pattern = (fs::temp_directory_path() / "berth-test-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    const pid_t program = ::fork();
    if (program == 0) {
      ::setpgid(0, 0);
      ::signal(signal, SIG_DFL);  // without this, doctest's handler would report a failure
      ::setenv("TMPDIR", pattern.c_str(), 1);
      ::setenv("FAKE_OPENCL", "hang", 1);
      static_cast<void>(opencl::Reader(FAKE_OPENCL_LIBRARY).finish(1000s));
      ::_exit(0);
    }
    const auto until = [&](bool is_empty) {
      const auto end = std::chrono::steady_clock::now() + 60s;
      while (fs::is_empty(pattern) != is_empty && std::chrono::steady_clock::now() < end)
        ::usleep(5000);
      return fs::is_empty(pattern) == is_empty;
    };
    CHECK(until(false));
    ::usleep(signal == SIGKILL ? 0 : 100'000);
    // Ctrl-C sends SIGINT to the whole process group. SIGKILL is sent only to the program.
    ::kill(signal == SIGINT ? -program : program, signal);
    int status = 0;
    REQUIRE(::waitpid(program, &status, 0) == program);
    CHECK(WTERMSIG(status) == signal);
    CHECK(until(true));
    fs::remove_all(pattern);
  }
}

TEST_CASE("the real library lists real devices") {
  const auto report = opencl::Reader("libOpenCL.so.1").finish(60s);
  if (!report.error && report.devices.empty()) {
    MESSAGE("skipped: no libOpenCL.so.1, or no platform is installed here");
    return;
  }
  REQUIRE(!report.error);
  for (const model::Device& device : report.devices) {
    CHECK(!device.name.empty());
    CHECK(device.readings.memory_total_bytes.value_or(0) > 0);
    CHECK(!device.note.empty());
    MESSAGE(device.name << ": " << device.note);
  }
}
