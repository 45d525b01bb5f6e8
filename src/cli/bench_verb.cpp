// `berth bench`: runs the cases that fit on the devices of this machine, each in its own process.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <functional>

#include "base/environment_variables.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "base/write_file.hpp"
#include "bench/child.hpp"
#include "cli/bench_framework.hpp"
#include "cli/bench_results.hpp"
#include "cli/look.hpp"
#include "cli/picture.hpp"
#include "cli/verbs.hpp"
#include "model/device_selector.hpp"
#include "model/device_use.hpp"
#include "model/topology.hpp"
#include "plan/catalogue.hpp"
#include "system/runtime_folder.hpp"

namespace berth::cli {
namespace {

constexpr std::int64_t kMostSeconds = 600, kLeastRows = 16, kMostRows = 65'536;
constexpr std::size_t kLargestKept = 16 << 20;
/// The deadline of a case. Starting a platform and compiling kernels takes seconds; probing and
/// checking the result take about as long as measuring. So the deadline is kStartTime plus
/// kTimesSeconds × --seconds.
constexpr std::chrono::seconds kStartTime(60);
constexpr int kTimesSeconds = 4;

/// With --size, a run can take any time, so this is the deadline of a case.
constexpr std::chrono::minutes kTimeOfASize(20);

struct Choice {
  std::optional<bench::Kind> kind;  // nullopt means all kinds
  std::string key;                  // an empty string means all cases of this kind
  std::string precision;            // "": all
  double seconds = 1;
  std::uint64_t size = 0;  // 0 means that each case chooses its size

  [[nodiscard]] bool takes(const bench::Case& one) const {
    return (!kind || one.kind == *kind) && (key.empty() || key == one.key) &&
           (precision.empty() || one.precision == precision);
  }
};

constexpr std::array<std::string_view, 5> kPrecisions{"fp32", "tf32", "fp16", "bf16", "fp64"};

/// Reads a word of the command line: a kind of case, the key of a case, or "all". Returns false for
/// other words.
bool read_word(const std::string& word, Choice& choice) {
  choice.kind = bench::kind_of(word);
  if (choice.kind || word == "all") return true;
  for (const bench::Case& one : bench::cases())
    if (word == one.key) choice.kind = one.kind, choice.key = word;
  return choice.kind.has_value();
}

Result<Choice> choice_of(const Arguments& arguments) {
  Choice choice;
  const auto& words = arguments.positional;
  const std::string word = words.empty() ? "all" : words.front();
  if (!read_word(word, choice) || words.size() > 1)
    return Error{ErrorCode::kInvalidArgument, "E1056",
                 text("there is no benchmark '{}'; possible: {}", printable(words.back()),
                      "gemm, memory, copy, peer, launch, train, infer, all"),
                 "berth bench gemm"};
  choice.precision = arguments.value("--precision").value_or("");
  if (!choice.precision.empty() &&
      std::find(kPrecisions.begin(), kPrecisions.end(), choice.precision) == kPrecisions.end())
    return Error{ErrorCode::kInvalidArgument, "E1048",
                 text("bench {} has no precision '{}'; possible: {}", word,
                      printable(choice.precision), fmt::join(kPrecisions, ", ")),
                 "berth bench gemm --precision fp32"};
  for (const char* option : {"--model", "--batch"})
    if (arguments.has(option)) return contradiction(word, option);
  if (const auto size = arguments.value("--size")) {
    if (choice.kind != bench::Kind::kGemm) return contradiction(word, "--size");
    const auto number = parse_integer(*size, kLeastRows, kMostRows);
    if (!number) return Error(number.error()).during("--size");
    choice.size = static_cast<std::uint64_t>(*number);
  }
  if (const auto seconds = arguments.value("--seconds")) {
    const auto number = parse_integer(*seconds, 1, kMostSeconds);
    if (!number) return Error(number.error()).during("--seconds");
    choice.seconds = static_cast<double>(*number);
  }
  if (arguments.has("--cpu") && arguments.has("--device"))
    return contradiction("--cpu", "--device");
  return choice;
}

/// Why a device is skipped unless the user named it; "" if it is measured.
std::string busy_reason(const model::Snapshot& snapshot, const model::Device& device) {
  if (device.kind != model::DeviceKind::kGpu) return {};
  if (model::users_unknown(device)) return text("its users are not known");
  for (const model::DeviceProcess& process : snapshot.processes)
    if (process.device == device.index && process.kind.compute)
      return text("in use; measure it anyway with --device {}", device.index);
  return {};
}

/// The devices to measure. Prints a reason for each device that is skipped.
Result<std::vector<const model::Device*>> devices_of(const model::Snapshot& snapshot,
                                                     const Arguments& arguments,
                                                     std::vector<SkippedDevice>& skipped) {
  std::vector<const model::Device*> chosen;
  if (arguments.has("--device")) {
    const auto selected = model::select_devices(snapshot.devices, arguments.values("--device"));
    if (!selected) return selected.error();
    for (const model::Selected& one : *selected)
      for (const model::Device& device : snapshot.devices) {
        if (device.index != one.device) continue;
        if (one.partition_uuid.empty())
          chosen.push_back(&device);
        else
          skipped.push_back({&device, text("MIG partitions cannot be measured")});
      }
    return chosen;
  }
  for (const model::Device& device : snapshot.devices) {
    if (arguments.has("--cpu") && device.kind != model::DeviceKind::kCpu) continue;
    if (std::string reason = busy_reason(snapshot, device); !reason.empty())
      skipped.push_back({&device, std::move(reason)});
    else
      chosen.push_back(&device);
  }
  return chosen;
}

/// The folders of Python installations that may contain cuBLAS in a package.
std::vector<std::string> python_prefixes(const Arguments& arguments) {
  std::vector<std::string> prefixes;
  if (const auto python = arguments.value("--python"))
    prefixes.push_back(std::filesystem::path(*python).parent_path().parent_path().string());
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const auto prefix = env_nonempty(variable)) prefixes.push_back(*prefix);
  if (const auto home = env_nonempty("HOME")) prefixes.push_back(*home + "/.local");
  prefixes.insert(prefixes.end(), {"/usr/local", "/usr"});
  return prefixes;
}

/// How the benchmark reaches a device; nullopt if no back end (such as CUDA or OpenCL) supports the
/// device.
std::optional<bench::Target> target_of(const model::Device& device, const model::Host& host,
                                       const Arguments& arguments) {
  bench::Target target;
  target.threads = std::max(host.cpu.cores_usable, 1);
  target.cpu_memory_bytes = host.cpu.memory_available_bytes.value_or(0);
  if (device.kind == model::DeviceKind::kCpu) return target;
  if (device.kind == model::DeviceKind::kGpu && device.vendor == model::Vendor::kNvidia &&
      !device.pci_address.empty()) {
    if (device.mig_enabled.value_or(false)) return std::nullopt;
    target.backend = bench::Backend::kCuda;
    target.pci_address = device.pci_address;
    target.python_prefixes = python_prefixes(arguments);
    return target;
  }
  target.backend = bench::Backend::kOpenCl;
  target.opencl_library = inventory::Sources::from_environment().opencl_library;
  target.pci_address = device.pci_address;
  if (device.kind == model::DeviceKind::kOpenCl) target.opencl_name = device.name;
  const bool reachable = !target.pci_address.empty() || !target.opencl_name.empty();
  if (target.opencl_library.empty() || !reachable) return std::nullopt;
  return target;
}

/// The bytes per second that a device's PCIe link can carry in one direction; absent if not known.
std::optional<double> pcie_rate_of(const model::Device& device) {
  const auto& readings = device.readings;
  if (!readings.pcie_generation_max || !readings.pcie_width) return std::nullopt;
  const double rate =
      bench::pcie_bytes_per_second(*readings.pcie_generation_max, *readings.pcie_width);
  return rate > 0 ? std::optional(rate) : std::nullopt;
}

/// The bytes per second that the link between two devices can carry in one direction; absent if not
/// known.
std::optional<double> link_rate_of(const model::Device& from, const model::Device& to) {
  const model::DeviceLink link = model::link_between(from, to);
  if (link.connection == model::Connection::kNvLink) {
    const auto gpu = plan::find_gpu(from.name);
    if (!gpu || !gpu->nvlink_bytes_per_second) return std::nullopt;
    const double all = static_cast<double>(from.readings.nvlink_links_max.value_or(0));
    const double share = all > 0 && link.nvlinks > 0 ? link.nvlinks / all : 1;
    return *gpu->nvlink_bytes_per_second * std::min(share, 1.0);
  }
  const auto one = pcie_rate_of(from), other = pcie_rate_of(to);
  return one && other ? std::optional(std::min(*one, *other)) : std::nullopt;
}

/// The published peak rate, which the case cannot exceed; absent if it is not known.
std::optional<double> peak_of(const BenchRow& row) {
  const model::Device& device = *row.device;
  if (device.kind == model::DeviceKind::kCpu) return std::nullopt;
  if (row.one.kind == bench::Kind::kPeer) return link_rate_of(device, *row.peer);
  if (row.one.kind == bench::Kind::kCopy) return pcie_rate_of(device);
  const auto gpu = plan::find_gpu(device.name);
  if (!gpu) return std::nullopt;
  if (row.one.kind == bench::Kind::kMemory) return gpu->memory_bytes_per_second;
  if (row.one.kind != bench::Kind::kGemm) return std::nullopt;
  const std::string_view precision = row.one.precision;
  return precision == "fp64"   ? gpu->fp64_flop_per_second
         : precision == "tf32" ? gpu->tf32_flop_per_second
         : precision == "fp32" ? gpu->fp32_flop_per_second
                               : gpu->fp16_flop_per_second;
}

Error not_written(const std::string& path, int problem) {
  const bool denied = problem == EACCES || problem == EPERM;
  return {denied ? ErrorCode::kPermissionDenied : ErrorCode::kInvalidArgument, "E1058",
          text("{0} cannot be written: {1}", printable(path), error_words(problem)),
          "berth bench --save ~/bench.json"};
}

/// Checks that the file can be created. Called before the measurement, which takes minutes.
Status check_folder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return not_written(path, errno);
  return Done{};
}

Status save(const std::string& path, std::string_view bytes) {
  return replace_file(path, bytes, 0644) ? Status(Done{}) : not_written(path, errno);
}

/// Stores the results for `berth health`. A device's first results are also stored as its baseline.
/// Devices that were not measured keep their earlier results.
Status keep(const std::string& json) {
  const std::string folder = system::state_folder(), latest = bench::kept_file(folder),
                    baseline = bench::kept_baseline_file(folder);
  std::error_code problem;
  std::filesystem::create_directories(std::filesystem::path(latest).parent_path(), problem);
  const auto kept = [](const std::string& file) { return slurp(file, kLargestKept).value_or(""); };
  if (auto written = save(latest, bench::with_results_of(json, kept(latest))); !written)
    return written;
  const std::string before = kept(baseline);
  const bool has_baseline = bench::parse_results(before, baseline).has_value();
  return save(baseline, has_baseline ? bench::with_results_of(before, json) : json);
}

/// Records the clock of the row's device, and the reasons why it is throttled.
void watch(const Context& context, BenchRow& row) {
  const auto now = look(context, Processes::kUsers, false);
  if (!now) return;
  for (const model::Device& device : now->devices) {
    if (device.index != row.device->index) continue;
    const auto& clock = device.readings.clock_graphics_mhz;
    if (clock && *clock > 0) row.clock_mhz = std::min(row.clock_mhz.value_or(*clock), *clock);
    if (const auto& most = device.readings.clock_graphics_max_mhz) row.clock_max_mhz = *most;
    for (const std::string& reason : device.throttle_reasons)
      if (auto& known = row.throttle_reasons;
          reason != "idle" && std::find(known.begin(), known.end(), reason) == known.end())
        known.push_back(reason);
  }
}

/// Runs one case on one device. Returns nullopt if the device does not support the case and the
/// user did not name the case.
std::optional<BenchRow> run_case(const Context& context, BenchRow row, const bench::Target& target,
                                 const Choice& choice, const EarlierResults& earlier) {
  if (const auto found = earlier.find(bench::result_key(*row.device, row.key()));
      found != earlier.end())
    row.earlier = found->second;
  // Use the same size as the earlier run, so that the results are comparable.
  const std::uint64_t size = choice.size > 0 ? choice.size : row.earlier ? row.earlier->size : 0;
  const auto deadline = (choice.size > 0 ? kTimeOfASize : kStartTime) +
                        std::chrono::seconds(kTimesSeconds * static_cast<int>(choice.seconds));
  std::function<void()> meanwhile;
  if (row.device->kind == model::DeviceKind::kGpu) meanwhile = [&] { watch(context, row); };
  row.measured = bench::run_in_child(row.one, target, {choice.seconds, size}, deadline, meanwhile);
  if (row.measured)
    row.times = bench::statistics_of(row.measured->seconds);
  else if (choice.precision.empty() && row.measured.error().id == bench::kUnsupportedId)
    return std::nullopt;
  row.peak_per_second = peak_of(row);
  return row;
}

/// The other GPUs to which CUDA can copy from this device.
std::vector<const model::Device*> peers_of(const model::Device& device,
                                           const std::vector<const model::Device*>& devices) {
  std::vector<const model::Device*> peers;
  for (const model::Device* other : devices)
    if (other != &device && other->kind == model::DeviceKind::kGpu &&
        other->vendor == model::Vendor::kNvidia && !other->mig_enabled.value_or(false))
      peers.push_back(other);
  return peers;
}

bool has_failed(const BenchRow& row) {
  return !row.times || !row.is_right().value_or(true) || row.is_slower();
}

/// Runs the chosen cases on each device.
void measure(const Context& context, const model::Snapshot& snapshot,
             const std::vector<const model::Device*>& devices, const Choice& choice,
             const EarlierResults& earlier, BenchReport& report) {
  for (const model::Device* device : devices) {
    auto target = target_of(*device, snapshot.host, context.arguments);
    if (!target) {
      report.skipped.push_back({device, device->mig_enabled.value_or(false)
                                            ? text("MIG partitions cannot be measured")
                                            : text("OpenCL cannot use this device")});
      continue;
    }
    for (const bench::Case& one : bench::cases()) {
      if (one.backend != target->backend || !choice.takes(one)) continue;
      std::vector<const model::Device*> peers{nullptr};
      if (one.kind == bench::Kind::kPeer) peers = peers_of(*device, devices);
      for (const model::Device* peer : peers) {
        BenchRow row;
        row.device = device, row.peer = peer, row.one = one;
        target->peer_pci_address = peer != nullptr ? peer->pci_address : "";
        if (context.err_terminal.tty && !context.json)
          context.err(text("measuring {0} on device {1} …", row.key(), device->index) + "\n");
        if (auto done = run_case(context, std::move(row), *target, choice, earlier))
          report.rows.push_back(*std::move(done));
      }
    }
  }
}

}  // namespace

Result<int> run_bench(const Context& context) {
  const Arguments& arguments = context.arguments;
  if (!arguments.positional.empty() &&
      (arguments.positional.front() == "train" || arguments.positional.front() == "infer"))
    return bench_framework(context);
  const auto choice = choice_of(arguments);
  if (!choice) return choice.error();
  EarlierResults earlier;
  if (const auto file = arguments.value("--against")) {
    auto read = read_results(*file);
    if (!read) return std::move(read).error();
    earlier = *std::move(read);
  }
  const auto saved = arguments.value("--save");
  if (saved)
    if (auto writable = check_folder(*saved); !writable) return std::move(writable).error();
  const auto picture = open_picture(arguments);
  if (!picture) return picture.error();
  const auto snapshot = look(context, Processes::kUsers, !arguments.has("--cpu"));
  if (!snapshot) return snapshot.error();
  BenchReport report;
  report.unix_milliseconds = snapshot->unix_milliseconds;
  report.seconds = choice->seconds;
  report.threads = std::max(snapshot->host.cpu.cores_usable, 1);
  const auto devices = devices_of(*snapshot, arguments, report.skipped);
  if (!devices) return devices.error();
  measure(context, *snapshot, *devices, *choice, earlier, report);
  if (report.rows.empty() && choice->kind == bench::Kind::kPeer)
    return Error{ErrorCode::kNotFound, "E1073",
                 text("copies between GPUs need two NVIDIA GPUs that can be measured"),
                 "berth ls --topology"};
  if (report.rows.empty() && report.skipped.empty())
    return Error{ErrorCode::kNotFound, "E1059",
                 text("no benchmark case with these options runs on these devices"),
                 "berth bench gemm --cpu"};
  const std::string json = bench_json(report);
  if (saved)
    if (auto written = save(*saved, json); !written) return std::move(written).error();
  if (arguments.has("--keep"))
    if (auto kept = keep(json); !kept) return std::move(kept).error();
  if (*picture)
    if (auto drawn = write_picture(arguments, *picture, bench_svg(report)); !drawn)
      return std::move(drawn).error();
  context.out(context.json ? json : bench_text(report, context.out_terminal));
  const bool failed = std::any_of(report.rows.begin(), report.rows.end(), has_failed);
  return failed || report.rows.empty() ? 1 : 0;
}

}  // namespace berth::cli
