// Rule RT16: GPUs whose first exchange by NCCL hangs or fails, for its own release's or the
// driver's sake.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "doctor/install.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/sight.hpp"
#include "doctor/rules/which_gpus.hpp"
#include "doctor/version.hpp"

namespace berth::doctor {
namespace {

/// NCCL by PyTorch's wheels, which pin a release that may be older than the GPUs.
void older_than_gpus(Examination& look) {
  constexpr std::string_view kFirst = "2.26.5";
  const auto gpus = seen_gpus(look);
  const auto newer = std::count_if(gpus.begin(), gpus.end(),
                                   [](const SeenGpu& one) { return one.capability == "12.0"; });
  const auto package = look.facts.python.distribution("nvidia-nccl-cu12");
  const Distribution* nccl = look.see(package);
  if (newer < 2 || nccl == nullptr || !is_older(nccl->version, kFirst) || torch_cuda(look).empty())
    return;
  Finding& finding = look.found(
      text("NCCL {} is older than several {} together want: {} is the first that serves them",
           nccl->version, gpus.front().name, kFirst));
  finding.evidence = {nccl->path, "https://github.com/vllm-project/vllm/issues/18814"};
  finding.fix.push_back(
      {install_command(look.facts.python, {"-U", fmt::format("nvidia-nccl-cu12>={}", kFirst)}),
       text(
           "pip then says that PyTorch requires another release; it takes this one all the same")});
  finding.fix.push_back({install_command(look.facts.python, {"-U", "torch"}),
                         text("2.8 and newer bring a newer NCCL")});
}

/// Two cards that have no way to each other's memory, and a driver that says they have.
void offered_peers(Examination& look) {
  constexpr std::uint32_t kRtx4090 = 0x2684;
  constexpr std::string_view kFixed = "525.105.17";
  const auto cards = gpus_on_bus(look, kVendorNvidia);
  const auto count = std::count_if(cards.begin(), cards.end(),
                                   [](const PciFunction& one) { return one.device == kRtx4090; });
  const SeenDriver driver = nvidia_driver(look);
  if (count < 2 || driver.version.empty() || compare_versions(driver.version, kFixed) >= 0 ||
      !variable_or_empty(look, "NCCL_P2P_DISABLE").empty())
    return;
  // It says itself that there is no such way.
  const auto& without = look.facts.driver.peer_pairs_unsupported;
  if (without && !without->empty()) return;
  Finding& finding = look.found(
      text("driver {} offers direct transfers (P2P) between RTX 4090, which have none: the first "
           "exchange by NCCL hangs",
           driver.version));
  finding.evidence = {text("{} RTX 4090 on the bus", count),
                      text("{} is the first driver that says so", kFixed),
                      "https://github.com/NVIDIA/nccl-tests/issues/117"};
  finding.fix.push_back({"export NCCL_P2P_DISABLE=1", text("until the driver is a newer one")});
  finding.fix.push_back({"", text("update the driver to {} or newer: needs root and a reboot, "
                                  "in a container on the host",
                                  kFixed)});
}

void collectives(Examination& look) {
  older_than_gpus(look);
  offered_peers(look);
}

constexpr auto kRules = std::to_array<Rule>({
    {"RT16", Layer::kRuntime, Severity::kWarning, true,
     msgid("GPUs that NCCL, or the driver under it, does not serve together"), "", collectives},
});

}  // namespace

std::span<const Rule> collective_rules() {
  return kRules;
}

}  // namespace berth::doctor
