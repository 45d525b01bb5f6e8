// `berth-k8s` is the program that `berth k8s device-plugin` and `berth k8s dra` start. It offers
// this machine's GPUs to the kubelet, and registers again after each restart of the kubelet. Its
// options are those of the two commands, which have already checked them.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "base/environment_variables.hpp"
#include "base/error_words.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "base/write_file.hpp"
#include "engines/other_plugin.hpp"
#include "engines/own_queue.hpp"
#include "engines/unguarded.hpp"
#include "engines/xid_hold.hpp"
#include "inventory/nvml_reader.hpp"
#include "inventory/observe.hpp"
#include "kubelet/dra.hpp"
#include "kubelet/held.hpp"
#include "kubelet/log.hpp"
#include "kubelet/plugin.hpp"

namespace berth::kubelet {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{200}, kFirstLook{40'000}, kRegister{2'000};

struct Options {
  bool observe = false, json = false, dra = false, held = false, pods = false;
  pid_t parent = 0;  // pid of the process that started the observer
  milliseconds interval{5'000};
  PluginSettings settings;
  DraSettings driver;
};

/// Reads an option of `dra`. Returns false if the option or its value is unknown.
bool read_driver_option(const std::string& word, const std::string& value, Options& options) {
  DraSettings& driver = options.driver;
  if (word == "--node")
    driver.node = value;
  else if (word == "--cdi")
    driver.folders.cdi = value;
  else if (word == "--account")
    driver.api.account = value;
  else if (word == "--api") {
    if (const auto address = engines::api_address(value)) {
      driver.api.host = address->host;
      driver.api.port = address->port;
    } else {
      return false;
    }
  } else
    return false;
  return true;
}

/// Sets the folders. For `device-plugin`, `--kubelet` is the folder of device plugins; for all
/// other parts, it is the folder above that.
void set_kubelet(const std::string& given, Options& options) {
  if (given.empty()) return;
  PluginSettings& settings = options.settings;
  const bool is_above = options.dra || options.held || options.pods;
  settings.kubelet = is_above ? given : std::filesystem::path(given).parent_path().string();
  settings.folder = is_above ? given + "/device-plugins" : given;
}

/// Reads the options. Returns false for an unknown option.
bool read(const std::vector<std::string>& words, Options& options) {
  std::string given_folder;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "observe") options.observe = true;
    if (word == "--json") options.json = true;
    if (word == "dra") options.dra = true;
    if (word == "held") options.held = true;
    if (word == "pods") options.pods = true;
    if (word == "observe" || word == "--json" || word == "device-plugin" || word == "dra" ||
        word == "held" || word == "pods")
      continue;
    if (i + 1 == words.size()) return false;
    const std::string& value = words[++i];
    if (word == "--shares")
      options.settings.config.shares = static_cast<int>(to_number(value).value_or(0));
    else if (word == "--memory-step" && parse_size(value))
      options.settings.config.memory_step_bytes = *parse_size(value);
    else if (word == "--kubelet")
      given_folder = value;
    else if (word == "--state")
      options.settings.state = value;
    else if (word == "--interval" && parse_duration(value))
      options.interval = *parse_duration(value);
    else if (word == "--pass")
      options.settings.config.pass = value == "cdi"     ? engines::KubePass::kCdi
                                     : value == "nodes" ? engines::KubePass::kNodes
                                                        : engines::KubePass::kEnv;
    else if (word == "--parent")
      options.parent = static_cast<pid_t>(to_number(value).value_or(0));
    else if (!read_driver_option(word, value, options))
      return false;
  }
  set_kubelet(given_folder, options);
  return true;
}

/// Receives the Xids that NVIDIA's driver reports for all GPUs.
class XidEvents {
 public:
  /// Starts to receive Xids. Starts again if the list of GPUs has changed, or if the driver has
  /// failed.
  void listen(const std::vector<engines::KubeUnit>& units, milliseconds interval) {
    std::vector<std::string> uuids;
    for (const engines::KubeUnit& unit : units)
      if (unit.profile.empty() && unit.healthy) uuids.push_back(unit.uuid);
    for (const engines::KubeUnit& unit : units)
      if (!unit.profile.empty() && !unit.pci.empty() &&
          std::find(uuids.begin(), uuids.end(), unit.pci) == uuids.end())
        uuids.push_back(unit.pci);
    if (sampler_ && sampler_->descriptor() >= 0 && uuids == uuids_) return;
    uuids_ = uuids;
    constexpr inventory::SamplePace kXidsAlone{0, 0, 0, true};
    sampler_ = std::make_unique<inventory::NvmlSampler>(inventory::Sources::from_environment(),
                                                        std::move(uuids), interval, kXidsAlone);
  }

  /// Waits until a fatal Xid has been added to `hold`, at most for this time.
  void wait(engines::XidHold& hold, milliseconds at_most) {
    const auto until = std::chrono::steady_clock::now() + at_most;
    for (;;) {
      const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
      if (left.count() <= 0) return;
      // If the descriptor is -1, poll() ignores it and only waits.
      pollfd waits{sampler_->descriptor(), POLLIN, 0};
      if (::poll(&waits, 1, static_cast<int>(left.count())) <= 0) continue;
      static_cast<void>(sampler_->take());
      if (hold.add(sampler_->take_xids())) return;
    }
  }

 private:
  std::unique_ptr<inventory::NvmlSampler> sampler_;
  std::vector<std::string> uuids_;
};

/// The main function of the observer process: scans the devices and writes one line per scan, until
/// the reader of its pipe is gone.
int observe(const Options& options) {
  constexpr int kLooksUntilWell = 12;  // a minute
  engines::XidHold hold(kLooksUntilWell);
  XidEvents events;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  // End if the parent has already exited. Do not compare with 1, because in a container the parent
  // itself may be process 1.
  if (::getppid() != options.parent) return 0;
  inventory::Options how;
  how.processes = false;
  how.process_details = false;
  how.holders = false;
  how.opencl = inventory::OpenCl::kNever;
  for (;;) {
    const auto snapshot = inventory::observe(inventory::Sources::from_environment(), how);
    auto units = engines::kube_units(snapshot);
    events.listen(units, options.interval);
    hold.apply(units);
    engines::OwnQueue(options.settings.state).apply(units);
    engines::mark_unguarded(units, snapshot, engines::counted_in_pods(options.settings.state));
    const std::string line = engines::units_line(units);
    if (::write(1, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return 0;
    events.wait(hold, options.interval);
  }
}

/// For `berth k8s lend` and `reclaim`, and for metrics: prints which devices pods have, or why that
/// is not known.
int print_held(const Options& options) {
  const auto held =
      options.pods
          ? pods_with_devices(options.settings.kubelet)
          : held_devices({options.settings.state, options.settings.kubelet, options.interval * 2});
  const std::string out =
      held ? *held
           : nlohmann::json{{"error", held.error().message}, {"hint", held.error().hint}}.dump() +
                 "\n";
  return write_all(1, out) ? 0 : 5;
}

/// The kubelet's socket file. Each start of the kubelet creates a new file, so a change means a
/// restart.
struct Kubelet {
  dev_t device = 0;
  ino_t file = 0;
  timespec made = {};
  bool operator==(const Kubelet& other) const {
    return device == other.device && file == other.file && made.tv_sec == other.made.tv_sec &&
           made.tv_nsec == other.made.tv_nsec;
  }
};
Kubelet kubelet_in(const std::string& folder) {
  struct stat status = {};
  if (::stat((folder + "/kubelet.sock").c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino, status.st_ctim};
}

class Daemon {
 public:
  explicit Daemon(const Options& options) : options_(options) {}

  int run(const std::vector<std::string>& observer_words) {
    if (!make_state_folder()) return 5;
    Observer observer(devices_, observer_words, [this](auto& units) { restrict_to_free(units); });
    if (!observer.wait_for_first(kFirstLook)) {
      log("no_look", {{"error", text("the drivers did not answer")}});
      return 3;
    }
    return options_.dra ? serve_claims() : serve_kubelet();
  }

 private:
  int serve_kubelet() {
    add_resources();
    while (!is_told_to_end()) {
      add_resources();
      const Kubelet now = kubelet_in(options_.settings.folder);
      note_absence(now);
      if (now.file != 0 && (!(now == known_) || !all_have_sockets())) enter(now);
    }
    log("ends");
    plugins_.clear();
    return 0;
  }

  int serve_claims() {
    DraSettings settings = options_.driver;
    settings.config = options_.settings.config;
    settings.folders.state = options_.settings.state;
    settings.folders.kubelet = options_.settings.kubelet;
    settings.plugins = options_.settings.kubelet + "/plugins";
    settings.registry = options_.settings.kubelet + "/plugins_registry";
    DraDriver driver(settings, devices_);
    log("offers", {{"driver", engines::kDraDriver},
                   {"node", settings.node},
                   {"devices", std::to_string(devices_.units().size())}});
    bool listens = false;
    while (!is_told_to_end()) {
      if (listens && driver.has_sockets()) continue;
      const Status done = driver.start();
      listens = static_cast<bool>(done);
      if (!done && done.error().message != said_)
        log("not_listening", {{"error", done.error().message}, {"id", done.error().id}});
      said_ = done ? "" : done.error().message;
    }
    log("ends");
    return 0;
  }
  /// Marks units that pods may not get. It asks the kubelet through gRPC, so it runs in this
  /// process: the process that queries the drivers forks, and may not use gRPC.
  void restrict_to_free(std::vector<engines::KubeUnit>& units) const {
    const PluginSettings& own = options_.settings;
    using Part = engines::OtherPlugins::Part;
    if (const auto pods = pods_of(own.kubelet, "nvidia.com/"))
      engines::mark_held_elsewhere(units, *pods);
    if (const auto pods = pods_of(own.kubelet, "berth.dev/"); pods && !options_.dra) {
      std::vector<std::string> slots;
      for (const auto& [id, pod] : *pods) slots.push_back(engines::slot_name(id));
      engines::note_running(own.state, slots);
    }
    engines::OtherPlugins(own.kubelet, own.folder,
                          options_.dra ? Part::kDriver : Part::kDevicePlugin)
        .apply(units);
  }

  /// Makes a server for each resource that has no server yet. MIG partitions that are made later
  /// may have new profiles, and each profile is a resource.
  void add_resources() {
    if (devices_.version() == looked_) return;
    looked_ = devices_.version();
    for (const auto& resource :
         engines::kube_resources(devices_.units(), options_.settings.config)) {
      if (std::any_of(plugins_.begin(), plugins_.end(), [&](const std::unique_ptr<Plugin>& one) {
            return one->resource() == resource.name;
          }))
        continue;
      log("offers",
          {{"resource", resource.name}, {"devices", std::to_string(resource.devices.size())}});
      plugins_.push_back(std::make_unique<Plugin>(options_.settings, resource.name, devices_));
    }
  }

  [[nodiscard]] bool make_state_folder() const {
    const std::string& folder = options_.settings.state;
    const auto made = engines::OwnQueue(folder).make_folder(
        options_.dra ? "berth k8s dra" : "berth k8s device-plugin");
    if (!made)
      log("no_state",
          {{"folder", folder}, {"error", made.error().message}, {"hint", made.error().hint}});
    return static_cast<bool>(made);
  }

  [[nodiscard]] bool all_have_sockets() const {
    for (const auto& plugin : plugins_)
      if (!plugin->has_socket()) return false;
    return true;
  }

  /// Logs once that no kubelet runs. The caller tries again at the next tick.
  void note_absence(const Kubelet& kubelet) {
    const bool is_absent = kubelet.file == 0;
    if (is_absent && !is_waiting_)
      log("no_kubelet", {{"error", text("{}: there is no kubelet yet; waiting for it",
                                        options_.settings.folder + "/kubelet.sock")},
                         {"hint", "systemctl status kubelet"}});
    is_waiting_ = is_absent;
  }

  /// Registers with the kubelet. A failure is logged once, and the registration is tried again at
  /// the next tick.
  void enter(const Kubelet& kubelet) {
    for (const auto& plugin : plugins_) {
      if (kubelet == known_ && plugin->has_socket()) continue;
      Status done = plugin->serve();
      if (done) done = plugin->register_here(kRegister);
      if (done) continue;
      if (done.error().message != said_)
        log("not_registered", {{"error", done.error().message}, {"id", done.error().id}});
      said_ = done.error().message;
      known_ = {};
      return;
    }
    known_ = kubelet;
    said_.clear();
    log("registered", {{"folder", options_.settings.folder}});
  }

  /// Waits for one tick, or for a signal to end. Returns true if such a signal came.
  static bool is_told_to_end() {
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    const timespec tick{0, static_cast<long>(kTick.count()) * 1'000'000};
    return ::sigtimedwait(&wanted, nullptr, &tick) > 0;
  }

  const Options& options_;
  Devices devices_;
  std::vector<std::unique_ptr<Plugin>> plugins_;
  Kubelet known_;
  std::uint64_t looked_ = 0;  // the version of the device list for which servers were made
  std::string said_;
  bool is_waiting_ = false;  // it was logged that no kubelet runs
};

int main_of(const std::vector<std::string>& words) {
  Options options;
  if (!read(words, options)) {
    log("usage", {{"hint", "berth k8s device-plugin --help"}});
    return 2;
  }
  if (options.observe) return observe(options);
  if (options.held || options.pods) return print_held(options);
  log_as_json(options.json);
  if (options.dra) {
    ApiSettings& api = options.driver.api;
    if (options.driver.node.empty()) options.driver.node = env_nonempty("NODE_NAME").value_or("");
    if (api.host.empty()) {
      api.host = env_nonempty("KUBERNETES_SERVICE_HOST").value_or("");
      api.port = env_nonempty("KUBERNETES_SERVICE_PORT").value_or("443");
    }
    if (options.driver.node.empty() || api.host.empty()) {
      log("usage", {{"hint", "berth k8s dra --node NAME --api https://HOST:PORT"}});
      return 2;
    }
  }
  // Block the signals before any thread starts. All threads inherit this, and only the main thread
  // waits for the signals.
  sigset_t blocked;
  sigemptyset(&blocked);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&blocked, signal);
  ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return Daemon(options).run({"/proc/self/exe", "observe", "--parent", std::to_string(::getpid()),
                              "--interval", fmt::format("{}ms", options.interval.count()),
                              "--state", options.settings.state});
}

}  // namespace
}  // namespace berth::kubelet

int main(int count, char** words) {
  return berth::kubelet::main_of({words + 1, words + count});
}
