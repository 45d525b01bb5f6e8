// Rule RT16: GPUs whose first communication through NCCL hangs or fails, because the release of
// NCCL or of the driver has a fault.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

/// Reports an NCCL that is too old for several of these GPUs. PyTorch's wheels require exactly this
/// NCCL, so pip does not update it.
void older_than_gpus(Examination& look) {
  constexpr std::string_view kFirst = "2.26.5";
  const auto gpus = seen_gpus(look);
  const auto newer = std::count_if(gpus.begin(), gpus.end(),
                                   [](const SeenGpu& one) { return one.capability == "12.0"; });
  const auto package = look.facts.python.distribution("nvidia-nccl-cu12");
  const Distribution* nccl = look.see(package);
  if (newer < 2 || nccl == nullptr || !is_older(nccl->version, kFirst) || torch_cuda(look).empty())
    return;
  Finding& finding = look.found(text(
      "NCCL {} is too old for several GPUs of type {}: {} is the first release that supports them",
      nccl->version, gpus.front().name, kFirst));
  finding.evidence = {nccl->path, "https://github.com/vllm-project/vllm/issues/18814"};
  finding.fix.push_back(
      {install_command(look.facts.python, {"-U", fmt::format("nvidia-nccl-cu12>={}", kFirst)}),
       text("pip then warns that PyTorch requires another release; PyTorch also works with this "
            "one")});
  finding.fix.push_back({install_command(look.facts.python, {"-U", "torch"}),
                         text("PyTorch 2.8 and newer contain a newer NCCL")});
}

/// Reports several RTX 4090 with a driver that wrongly claims peer access between them.
void offered_peers(Examination& look) {
  constexpr std::uint32_t kRtx4090 = 0x2684;
  constexpr std::string_view kFixed = "525.105.17";
  const auto cards = gpus_on_bus(look, kVendorNvidia);
  const auto count = std::count_if(cards.begin(), cards.end(),
                                   [](const PciFunction& one) { return one.device == kRtx4090; });
  const SeenDriver driver = nvidia_driver(look);
  if (count < 2 || driver.version.empty() || !is_older(driver.version, kFixed) ||
      !variable_or_empty(look, "NCCL_P2P_DISABLE").empty())
    return;
  // A driver that reports GPU pairs without peer access does not have this fault: skip it.
  const auto& without = look.facts.driver.peer_pairs_unsupported;
  if (without && !without->empty()) return;
  Finding& finding =
      look.found(text("driver {} reports direct transfers (P2P) between RTX 4090 cards, which do "
                      "not support them: the first NCCL operation hangs",
                      driver.version));
  finding.evidence = {text("{} RTX 4090 cards on the PCI bus", count),
                      text("driver {} is the first that reports P2P as unsupported", kFixed),
                      "https://github.com/NVIDIA/nccl-tests/issues/117"};
  finding.fix.push_back(
      {"export NCCL_P2P_DISABLE=1", text("set this until the driver is updated")});
  finding.fix.push_back({"", text("update the driver to {} or newer (for a container, on the "
                                  "host); this needs root and a reboot",
                                  kFixed)});
}

void collectives(Examination& look) {
  older_than_gpus(look);
  offered_peers(look);
}

constexpr auto kCollectivesRules = std::to_array<Rule>({
    {"RT16", Layer::kRuntime, Severity::kWarning, true,
     msgid("several GPUs that NCCL or the driver cannot use together"), "", collectives},
});

}  // namespace

std::span<const Rule> collective_rules() {
  return kCollectivesRules;
}

}  // namespace berth::doctor
