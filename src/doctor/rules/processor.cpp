// Rules CPU about the CPU work of a program, which can delay its GPU work.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

/// The number of compute threads that a program starts. `shown` is the variable that sets this
/// number. If `shown` is "", no variable sets it, and there is one thread for each CPU.
struct Threads {
  std::int64_t count = 0;
  std::string shown;
};

std::optional<Threads> threads_of(Examination& look) {
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    const std::string value = variable_or_empty(look, name);
    const auto count = to_number(value.substr(0, value.find(',')));
    if (count && *count > 0) return Threads{*count, fmt::format("{}={}", name, value)};
  }
  const auto* cpus = look.see(look.facts.process.cpus);
  if (cpus == nullptr) return std::nullopt;
  return Threads{static_cast<std::int64_t>(cpus->size()), ""};
}

void threads_over_quota(Examination& look) {
  const auto threads = threads_of(look);
  if (!threads || look.facts.process.environment.is_unreadable()) return;
  const auto* cpus = look.see(look.facts.process.cpus);
  const auto* quota = look.see(look.facts.process.quota_cores);
  if (cpus == nullptr) return;
  const auto processes =
      std::max<std::int64_t>(1, to_number(variable_or_empty(look, "LOCAL_WORLD_SIZE")).value_or(1));
  const double cores = quota == nullptr ? static_cast<double>(cpus->size())
                                        : std::min(*quota, static_cast<double>(cpus->size()));
  const double total = static_cast<double>(threads->count * processes);
  // A few more threads than cores do no harm.
  if (total < 2 * cores || total - cores < 4) return;
  const auto fair = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::floor(cores / static_cast<double>(processes))));
  Finding& finding =
      look.found(text("{} threads would share {:.3g} cores", threads->count * processes, cores));
  if (quota != nullptr) finding.evidence.push_back(fmt::format("cpu.max: {:.3g}", *quota));
  finding.evidence.push_back(fmt::format("sched_getaffinity: {}", cpus->size()));
  finding.evidence.push_back(threads->shown.empty() ? text("OMP_NUM_THREADS is not set")
                                                    : threads->shown);
  if (processes > 1) finding.evidence.push_back(fmt::format("LOCAL_WORLD_SIZE={}", processes));
  finding.fix.push_back({fmt::format("export OMP_NUM_THREADS={}", fair), ""});
}

void omp_one(Examination& look) {
  if (variable_or_empty(look, "OMP_NUM_THREADS") != "1") return;
  const auto* cpus = look.see(look.facts.process.cpus);
  // torchrun sets OMP_NUM_THREADS to 1 on purpose, because several ranks share a machine.
  if (cpus == nullptr || !variable_or_empty(look, "LOCAL_WORLD_SIZE").empty()) return;
  const auto* quota = look.see(look.facts.process.quota_cores);
  const double cores = quota == nullptr ? static_cast<double>(cpus->size())
                                        : std::min(*quota, static_cast<double>(cpus->size()));
  if (cores < 4) return;
  Finding& finding = look.found(
      text("OMP_NUM_THREADS=1 limits the program to one of {:.3g} cores, and makes nproc print 1",
           cores));
  finding.evidence.emplace_back("OMP_NUM_THREADS=1");
  finding.evidence.push_back(fmt::format("sched_getaffinity: {}", cpus->size()));
  finding.fix.push_back({fmt::format("export OMP_NUM_THREADS={}", static_cast<int>(cores)),
                         text("or unset the variable; with several processes, give each process "
                              "its share of the cores")});
}

void cpuset_against_limit(Examination& look) {
  const auto* online = look.see(look.facts.platform.cpu.online);
  const auto* cpus = look.see(look.facts.process.cpus);
  if (online == nullptr || cpus == nullptr) return;
  const auto& process = look.facts.process;
  const auto* group = look.see(process.cgroup_processes_limit);
  const auto* user = look.see(process.processes_limit);
  std::uint64_t limit = ~std::uint64_t{0};
  if (group != nullptr) limit = *group;
  if (user != nullptr) limit = std::min(limit, *user);
  // Some libraries start one thread for each CPU of the machine, including those CPUs that this
  // process is not permitted to use.
  if (online->size() <= limit || cpus->size() * 2 > online->size()) return;
  Finding& finding =
      look.found(text("at most {} processes and threads are allowed, but libraries that start one "
                      "for each of this machine's {} processors need more",
                      limit, online->size()));
  finding.evidence.push_back(group != nullptr && *group == limit
                                 ? fmt::format("pids.max - pids.current: {}", limit)
                                 : fmt::format("RLIMIT_NPROC: {}", limit));
  finding.evidence.push_back(fmt::format(
      "/sys/devices/system/cpu/online: {}; sched_getaffinity: {}", online->size(), cpus->size()));
  finding.fix.push_back({fmt::format("export OMP_NUM_THREADS={0} OPENBLAS_NUM_THREADS={0}",
                                     std::max<std::size_t>(1, cpus->size())),
                         ""});
}

/// Reports that mkl-service may end a child process. It does so if GNU's OpenMP is loaded, but
/// Intel's is configured. This happens if the parent imported NumPy first, and the child imports
/// PyTorch first.
void mkl_beside_gnu(Examination& look, const std::vector<OpenMp>& copies) {
  const auto gnu = std::find_if(copies.begin(), copies.end(), [](const OpenMp& one) {
    return one.gnu && contains(one.path, "/torch/lib/");
  });
  if (gnu == copies.end()) return;
  const CondaPackage* conda = conda_package(look, "mkl-service");
  const auto wheel = look.facts.python.distribution("mkl-service");
  const Distribution* own = conda == nullptr ? look.see(wheel) : nullptr;
  if (conda == nullptr && own == nullptr) return;
  std::string layer = variable_or_empty(look, "MKL_THREADING_LAYER");
  for (char& c : layer) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if ((!layer.empty() && layer != "INTEL") ||
      !variable_or_empty(look, "MKL_SERVICE_FORCE_INTEL").empty())
    return;
  const bool many = !variable_or_empty(look, "LOCAL_WORLD_SIZE").empty();
  Finding& finding =
      look.found(text("PyTorch contains GNU's OpenMP, but mkl-service requires Intel's: a child "
                      "process that imports PyTorch first fails"));
  if (layer.empty() && !many) finding.severity = Severity::kInfo;
  finding.evidence = {gnu->path, conda == nullptr ? own->path : conda->path};
  finding.evidence.push_back(layer.empty() ? text("MKL_THREADING_LAYER is not set")
                                           : "MKL_THREADING_LAYER=" + layer);
  finding.fix.push_back(
      {"export MKL_THREADING_LAYER=GNU", text("MKL then uses the OpenMP that PyTorch has loaded")});
}

/// Reports two copies of Intel's (or LLVM's) OpenMP runtime. A program that loads both copies ends
/// with an error.
void two_of_intel(Examination& look, const std::vector<OpenMp>& copies) {
  const auto count =
      std::count_if(copies.begin(), copies.end(), [](const OpenMp& one) { return !one.gnu; });
  if (count < 2 || is_on(variable_or_empty(look, "KMP_DUPLICATE_LIB_OK"))) return;
  Finding& finding =
      look.found(text("{} copies of Intel's OpenMP are in this environment: a program that loads "
                      "two of them is aborted (OMP: Error #15)",
                      count));
  for (const OpenMp& one : copies)
    if (!one.gnu) finding.evidence.push_back(one.path);
  finding.fix.push_back({"", text("install the packages from one source, all from conda or all "
                                  "from pip; with conda also: conda install nomkl")});
  finding.fix.push_back(
      {"export KMP_DUPLICATE_LIB_OK=TRUE",
       text("lets both copies run, with twice the threads; Intel warns of wrong results")});
}

void two_openmp(Examination& look) {
  const auto* copies = look.see(look.facts.python.openmp);
  if (copies == nullptr) return;
  mkl_beside_gnu(look, *copies);
  two_of_intel(look, *copies);
}

void governor(Examination& look) {
  const auto* governor = look.see(look.facts.platform.cpu.governor);
  const auto* driver = look.see(look.facts.platform.cpu.frequency_driver);
  if (governor == nullptr || driver == nullptr || *governor != "powersave") return;
  // No fault: with these drivers, "powersave" is the default, and the clock follows the load.
  if (*driver == "intel_pstate" || driver->starts_with("amd-pstate") || *driver == "amd_pstate")
    return;
  Finding& finding = look.found(
      text("the CPU is limited to its lowest clock, which delays the start of GPU work"));
  finding.evidence.push_back(
      fmt::format("/sys/devices/system/cpu/cpu0/cpufreq: {} {}", *driver, *governor));
  finding.fix.push_back(
      {"sudo cpupower frequency-set -g performance", text("until the next boot")});
}

constexpr auto kProcessorRules = std::to_array<Rule>({
    {"CPU01", Layer::kRuntime, Severity::kWarning, true, msgid("more threads than cores"), "",
     threads_over_quota},
    {"CPU02", Layer::kRuntime, Severity::kInfo, true, msgid("only one thread on many cores"), "",
     omp_one},
    {"CPU03", Layer::kRuntime, Severity::kError, false,
     msgid("a process limit that is too low for the threads of libraries"), "",
     cpuset_against_limit},
    {"CPU04", Layer::kRuntime, Severity::kWarning, true, msgid("conflicting OpenMP runtimes"), "",
     two_openmp},
    {"CPU05", Layer::kRuntime, Severity::kInfo, false, msgid("a CPU limited to a low clock"), "",
     governor},
});

}  // namespace

std::span<const Rule> processor_rules() {
  return kProcessorRules;
}

}  // namespace berth::doctor
