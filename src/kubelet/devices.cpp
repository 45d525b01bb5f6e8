#include "kubelet/devices.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.hpp"
#include "engines/other_plugin.hpp"
#include "kubelet/log.hpp"
#include "system/spawn.hpp"

namespace berth::kubelet {
namespace {

constexpr std::size_t kMostLine = 8 << 20;

/// Formats the units as text with the fields that matter to the kubelet. If the text is equal, no
/// new message is sent.
std::string told(const std::vector<engines::KubeUnit>& units) {
  return engines::units_line(units);
}

void log_enforcement(const engines::KubeUnit& unit) {
  if (!unit.unguarded) return log("enforced", {{"device", unit.uuid}});
  log("not_enforced",
      {{"device", unit.uuid},
       {"why", text("a program uses GPU memory without the guard: it is statically linked, built "
                    "for musl or glibc before 2.17, clears LD_PRELOAD, or runs outside pods")},
       {"hint", "sudo berth ps"}});
}

/// Why Berth may not allocate units because another plugin runs; "" if no other plugin runs.
std::string other_plugin_of(const std::vector<engines::KubeUnit>& units) {
  std::string all;
  for (const engines::KubeUnit& unit : units)
    if (unit.fault == engines::kOtherPluginFault && all.find(unit.why) == std::string::npos)
      all += (all.empty() ? "" : "; ") + unit.why;
  return all;
}

}  // namespace

void Devices::put(std::vector<engines::KubeUnit> seen) {
  const std::scoped_lock hold(lock_);
  auto now = engines::with_missing(std::move(seen), units_);
  if (version_ > 0 && told(now) == told(units_)) return;
  for (const engines::KubeUnit& unit : now)
    for (const engines::KubeUnit& before : units_) {
      if (unit.uuid == before.uuid && unit.unguarded != before.unguarded) log_enforcement(unit);
      if (unit.uuid == before.uuid && unit.healthy != before.healthy &&
          unit.fault != engines::kOtherPluginFault && before.fault != engines::kOtherPluginFault)
        log(unit.healthy ? "healthy" : "unhealthy", {{"device", unit.uuid}, {"why", unit.why}});
    }
  if (const std::string other = other_plugin_of(now); other != other_) {
    if (other.empty())
      log("other_plugin_gone");
    else
      log("other_plugin", {{"error", text("Berth withholds GPUs of this node: {}", other)},
                           {"id", "E1075"},
                           {"hint", engines::kOtherPluginHint}});
    other_ = other;
  }
  units_ = std::move(now);
  ++version_;
  changed_.notify_all();
}

std::vector<engines::KubeUnit> Devices::units() const {
  const std::scoped_lock hold(lock_);
  return units_;
}

std::uint64_t Devices::version() const {
  const std::scoped_lock hold(lock_);
  return version_;
}

void Devices::wait(std::uint64_t known, std::chrono::milliseconds at_most) const {
  std::unique_lock hold(lock_);
  changed_.wait_for(hold, at_most, [&] { return version_ != known; });
}

Observer::Observer(Devices& devices, std::vector<std::string> words, Restrict restricted)
    : devices_(devices),
      words_(std::move(words)),
      restricted_(std::move(restricted)),
      thread_([this] { run(); }) {}

Observer::~Observer() {
  {
    const std::scoped_lock hold(lock_);
    ending_ = true;
    if (child_ > 0) ::kill(child_, SIGTERM);
    ending_changed_.notify_all();
  }
  thread_.join();
}

bool Observer::wait_for_first(std::chrono::milliseconds at_most) const {
  devices_.wait(0, at_most);
  return devices_.version() > 0;
}

void Observer::read_lines(int file) {
  std::string line;
  char buffer[16'384];
  for (;;) {
    const ssize_t n = ::read(file, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || line.size() > kMostLine) return;
    for (ssize_t i = 0; i < n; ++i) {
      if (buffer[i] != '\n') {
        line += buffer[i];
        continue;
      }
      if (auto units = engines::units_in(line)) {
        restricted_(*units);
        devices_.put(*std::move(units));
      }
      line.clear();
    }
  }
}

void Observer::run() {
  for (;;) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    const Descriptor out(ends[0]);
    {
      Descriptor in(ends[1]);
      const std::scoped_lock hold(lock_);
      if (ending_) return;
      const auto started =
          system::spawn({.program = words_.front(), .words = words_, .out = in.get(), .err = 2});
      child_ = started.pid;
    }
    if (child_ > 0) read_lines(out.get());
    std::unique_lock hold(lock_);
    if (child_ > 0) {
      ::kill(child_, SIGTERM);
      int status = 0;
      while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
      }
    }
    child_ = -1;
    if (ending_) return;
    log("observer_ended");
    ending_changed_.wait_for(hold, std::chrono::seconds(1), [&] { return ending_; });
    if (ending_) return;
  }
}

}  // namespace berth::kubelet
