#include "doctor/knowledge/compatibility.hpp"

#include <algorithm>
#include <array>

#include "doctor/knowledge/version.hpp"

namespace berth::doctor {

std::string Compatibility::cuda_of_driver(std::string_view driver) const {
  std::string best;
  for (const ToolkitDriver& row : toolkit_drivers)
    if (!is_older(driver, row.driver) && (best.empty() || is_older(best, beginning(row.cuda))))
      best = beginning(row.cuda);
  return best;
}

std::string Compatibility::cuda_of_branch(std::string_view driver) const {
  const Version version = version_of(driver);
  std::string cuda;
  for (const BranchCuda& row : branches)
    if (!version.empty() && version[0] >= row.branch) cuda = row.cuda;
  return cuda;
}

std::string Compatibility::driver_for(std::string_view cuda) const {
  const Version wanted = version_of(cuda);
  if (wanted.empty()) return "";
  for (const MajorDriver& row : major_drivers)
    if (row.major == wanted[0]) return row.driver;
  for (const ToolkitDriver& row : toolkit_drivers)
    if (beginning(row.cuda) == beginning(cuda)) return row.driver;
  return "";
}

std::string Compatibility::driver_made_for(std::string_view cuda) const {
  std::string lowest;
  for (const ToolkitDriver& row : toolkit_drivers)
    if (beginning(row.cuda) == beginning(cuda) && (lowest.empty() || is_older(row.driver, lowest)))
      lowest = row.driver;
  return lowest;
}

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_letter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

/// Whether the name starts with `begins` and `digits` digits, and its last number or word ends
/// there: "H100" does not match "H1000".
bool begins_with(std::string_view name, std::string_view begins, int digits = 0) {
  if (begins.empty() || !name.starts_with(begins)) return false;
  char last = begins.back();
  name.remove_prefix(begins.size());
  for (; digits > 0; --digits) {
    if (name.empty() || !is_digit(name.front())) return false;
    last = name.front();
    name.remove_prefix(1);
  }
  if (name.empty()) return true;
  return !(is_digit(last) && is_digit(name.front())) &&
         !(is_letter(last) && is_letter(name.front()));
}

/// The family with the longest prefix that matches the name. `fold` changes the prefixes to the
/// notation of `name`, such as lower case.
template <typename Fold>
const GpuFamily* family_of(const std::vector<GpuFamily>& families, std::string_view name,
                           Fold fold) {
  const GpuFamily* best = nullptr;
  for (const GpuFamily& row : families)
    if (begins_with(name, fold(row.begins), row.digits) &&
        (best == nullptr || row.begins.size() > best->begins.size()))
      best = &row;
  return best;
}

/// The name in lower case, with spaces between its words, series and numbers: "rtx 4090" for
/// "NVIDIA RTX4090", "rtx_4090", "Rtx-4090".
std::string as_words(std::string_view name) {
  std::string out;
  for (const char c : lower(name)) {
    const bool is_gap = c == ' ' || c == '-' || c == '_';
    const std::string_view word = std::string_view(out).substr(out.rfind(' ') + 1);
    const bool is_line = word == "geforce" || word == "quadro" || word == "tesla" ||
                         word == "titan" || word == "rtx" || word == "gtx";
    if (!is_gap && (is_line || (word == "gt" && is_digit(c)))) out += ' ';
    if (!is_gap)
      out += c;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  }
  if (out.starts_with("nvidia ")) out.erase(0, 7);
  return out;
}

const GpuFamily* family_as_said(const std::vector<GpuFamily>& families, std::string_view words) {
  // Skip GeForce: its numbers do not end in 000. "RTX 4000" is a workstation card.
  const bool workstation = words.find("000") != std::string::npos;
  for (const char* before :
       {"", "geforce ", "geforce rtx ", "geforce gtx ", "tesla ", "quadro ", "rtx "}) {
    if (workstation && std::string_view(before).starts_with("geforce")) continue;
    if (const GpuFamily* found = family_of(families, before + std::string(words), as_words))
      return found;
  }
  // The name may be that of a part of a GPU (GRID A100-20C), or of a machine with several GPUs.
  for (const std::string_view whose : {"grid ", "dgx ", "hgx "})
    if (words.starts_with(whose)) return family_as_said(families, words.substr(whose.size()));
  return nullptr;
}

}  // namespace

std::string Compatibility::capability_of(std::string_view gpu_name) const {
  if (gpu_name.starts_with("NVIDIA ")) gpu_name.remove_prefix(7);
  if (const GpuFamily* found =
          family_of(families, gpu_name, [](std::string_view begins) { return begins; }))
    return found->capability;
  return gpu_name.starts_with("GRID ") ? capability_as_said(gpu_name) : "";
}

std::string Compatibility::capability_as_said(std::string_view gpu_name) const {
  const std::string said = as_words(gpu_name);
  const GpuFamily* found = family_as_said(families, said);
  if (found == nullptr || !several_of(gpu_name).empty()) return "";
  // The text may also name a second GPU: "RTX 3090 and K80". If its capability differs, there is no
  // answer.
  for (std::size_t at = said.find(' '); at != std::string::npos; at = said.find(' ', at + 1)) {
    const GpuFamily* other = family_as_said(families, std::string_view(said).substr(at + 1));
    if (other != nullptr && other->capability != found->capability) return "";
  }
  return found->capability;
}

std::vector<std::string> Compatibility::several_of(std::string_view gpu_name) const {
  const std::string said = as_words(gpu_name);
  for (const auto& [name, means] : several_gpus)
    if (as_words(name) == said) return means;
  return {};
}

bool Compatibility::is_with_aarch64(std::string_view gpu_name) const {
  const GpuFamily* found = family_as_said(families, as_words(gpu_name));
  return found != nullptr && found->aarch64;
}

std::string Compatibility::other_maker(std::string_view gpu_name) const {
  std::string said = lower(gpu_name);
  if (said.starts_with("nvidia ")) said.erase(0, 7);
  for (const auto& [maker, names] : other_gpus)
    for (const std::string& begins : names)
      if (begins_with(said, lower(begins))) return maker;
  return "";
}

const ArchToolkits* Compatibility::toolkits_of(std::string_view capability) const {
  for (const ArchToolkits& row : archs)
    if (row.capability == capability) return &row;
  return nullptr;
}

std::string Compatibility::newest_rocm() const {
  const auto row =
      std::find_if(torch.begin(), torch.end(), [](const auto& one) { return !one.rocm.empty(); });
  return row == torch.end() ? "" : row->rocm;
}

std::string Compatibility::cudnn_of_torch(std::string_view version, std::string_view cuda) const {
  for (const TorchRelease& row : torch) {
    if (beginning(version) != row.version) continue;
    for (const std::string& build : {tag_of_cuda(cuda), std::string("all")})
      if (const auto found = row.cudnn.find(build); found != row.cudnn.end()) return found->second;
  }
  return "";
}

const TensorflowRelease* Compatibility::tensorflow_of(std::string_view version) const {
  for (const TensorflowRelease& row : tensorflow)
    if (in_range(version, row.version)) return &row;
  return nullptr;
}

namespace {

/// Tegra GPUs cannot run machine code (SASS) for other GPUs, and other GPUs cannot run Tegra's,
/// even if the major versions are equal.
bool is_tegra(std::string_view capability) {
  constexpr auto kTegra = std::to_array<std::string_view>({"3.2", "5.3", "6.2", "7.2", "8.7"});
  return std::find(kTegra.begin(), kTegra.end(), capability) != kTegra.end();
}

}  // namespace

bool sass_serves(const std::vector<std::string>& arch, std::string_view capability) {
  const Version wanted = version_of(capability);
  return std::any_of(arch.begin(), arch.end(), [&](const std::string& one) {
    if (is_tegra(one) || is_tegra(capability)) return one == capability;
    const Version has = version_of(one);
    return !has.empty() && !wanted.empty() && has[0] == wanted[0] && compare(has, wanted) <= 0;
  });
}

Kernels kernels_of(const WheelArch& row, std::string_view capability) {
  if (sass_serves(row.arch, capability)) return Kernels::kHas;
  const bool by_ptx = !row.ptx.empty() && !is_older(capability, row.ptx);
  return by_ptx ? Kernels::kByPtx : Kernels::kLacks;
}

namespace {

/// The first toolkit whose machine code can run on this capability. For 8.6, it is the first
/// toolkit that can compile for 8.0, because that code also runs on 8.6.
std::string first_toolkit(const Compatibility& known, std::string_view capability) {
  std::string first;
  for (const ArchToolkits& row : known.archs)
    if (sass_serves({row.capability}, capability) && !row.first.empty() &&
        (first.empty() || is_older(row.first, first)))
      first = row.first;
  return first;
}

}  // namespace

Kernels toolkit_compiles(const Compatibility& known, std::string_view cuda,
                         std::string_view capability) {
  const ArchToolkits* bounds = known.toolkits_of(capability);
  if (bounds == nullptr) return Kernels::kUnknown;
  const std::string first = first_toolkit(known, capability);
  const bool too_old = !first.empty() && is_older(cuda, first);
  const bool too_new = !bounds->last.empty() && is_older(bounds->last, beginning(cuda));
  return too_old || too_new ? Kernels::kLacks : Kernels::kHas;
}

namespace {

bool is_before(std::string_view versions, std::string_view version) {
  const std::size_t dash = versions.find('-');
  const std::string_view last =
      dash == std::string_view::npos ? versions : versions.substr(dash + 1);
  return is_older(last, beginning(version));
}

}  // namespace

Kernels torch_kernels(const Compatibility& known, std::string_view version, std::string_view cuda,
                      bool aarch64, std::string_view capability) {
  // A release without a row lies between two releases that have rows. If both rows have the same
  // result, that result also holds for the release between them.
  std::optional<Kernels> before, after;
  std::string before_row;
  for (const WheelArch& row : known.torch_archs) {
    if (row.aarch64 != aarch64 || row.cuda != beginning(cuda)) continue;
    if (in_range(version, row.versions)) return kernels_of(row, capability);
    if (!is_before(row.versions, version)) {
      after = kernels_of(row, capability);  // the rows are sorted from newest to oldest
    } else if (!before) {
      before = kernels_of(row, capability);
    }
  }
  if (before && after && *before == *after) return *before;
  // Returns kLacks if the toolkit is too old or too new to compile for the GPU, otherwise kUnknown.
  const Kernels possible = toolkit_compiles(known, cuda, capability);
  return possible == Kernels::kHas ? Kernels::kUnknown : possible;
}

}  // namespace berth::doctor
