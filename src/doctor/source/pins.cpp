// Reports pinned releases in one list that cannot be installed or loaded together.
#include <algorithm>
#include <optional>

#include "base/text_parts.hpp"
#include "doctor/source/shell.hpp"

namespace berth::doctor::source {
namespace {

struct Release {
  int major = 0, minor = 0;
};

/// The release in a pin such as "==2.1.0+cu118"; nullopt if the requirement pins no release.
std::optional<Release> pinned(std::string_view requirement) {
  const std::size_t at = requirement.find("==");
  if (at == std::string_view::npos) return std::nullopt;
  const auto parts = split(trim(requirement.substr(at + 2)), '.');
  if (parts.size() < 2) return std::nullopt;
  const auto major = to_number(trim(parts[0]));
  const auto minor = to_number(
      parts[1].substr(0, std::min(parts[1].find_first_not_of("0123456789"), parts[1].size())));
  if (!major || !minor || *major > 100 || *minor > 1000) return std::nullopt;
  return Release{static_cast<int>(*major), static_cast<int>(*minor)};
}

/// The CUDA major version in a requirement: "12" for "torch==2.1.0+cu121" and "nvidia-cublas-cu12";
/// "" if there is none.
std::string_view cuda_major(std::string_view text) {
  for (const std::string_view mark : {"+cu", "-cu"})
    if (const std::size_t at = text.rfind(mark); at != std::string_view::npos)
      for (const std::string_view major : {"11", "12", "13"})
        if (text.substr(at + mark.size()).starts_with(major)) return major;
  return "";
}

/// Whether these releases are compatible. Each torchvision release needs a certain PyTorch (0.16
/// needs 2.1, 0.14 needs 1.13): https://pytorch.org/get-started/previous-versions/. torchaudio has
/// the same release number as PyTorch; before 2.0, with a leading 0.
bool goes_together(std::string_view package, const Release& torch, const Release& other) {
  if (package == "torchvision")
    return other.major == 0 && other.minor == torch.minor + (torch.major == 1 ? 1 : 15);
  return other.major == (torch.major == 1 ? 0 : torch.major) && other.minor == torch.minor;
}

std::string meant_for(std::string_view package, const Release& torch) {
  const bool vision = package == "torchvision";
  const int minor = torch.minor + (!vision ? 0 : torch.major == 1 ? 1 : 15);
  return std::string(package) +
         "==" + std::to_string(vision || torch.major == 1 ? 0 : torch.major) + "." +
         std::to_string(minor) + ".*";
}

}  // namespace

void Pins::add(int line, std::string_view requirement) {
  requirement = trim(requirement.substr(0, requirement.find_first_of(";#")));
  const std::string name =
      lower(trim(requirement.substr(0, requirement.find_first_of("=<>~![ @"))));
  if (name == "torch" || name == "torchvision" || name == "torchaudio" ||
      (name.starts_with("nvidia-") && !cuda_major(name).empty()))
    all_.push_back({line, name, std::string(requirement)});
}

void Pins::finish(Marks& marks) {
  const auto torch =
      std::find_if(all_.begin(), all_.end(), [](const Pin& one) { return one.name == "torch"; });
  const auto release = torch == all_.end() ? std::nullopt : pinned(torch->requirement);
  const bool is_known = release && (release->major == 1 || release->major == 2);
  std::string_view first_cuda;
  const Pin* first = nullptr;
  for (const Pin& one : all_) {
    const auto other = one.name == "torch" ? std::nullopt : pinned(one.requirement);
    if (is_known && other && !one.name.starts_with("nvidia-") &&
        !goes_together(one.name, *release, *other)) {
      marks.push_back({one.line,
                       "pins_of_other_torch",
                       torch->requirement,
                       0,
                       {},
                       {},
                       meant_for(one.name, *release)});
      continue;
    }
    const std::string_view cuda = cuda_major(one.requirement);
    if (cuda.empty()) continue;
    if (first == nullptr) {
      first = &one;
      first_cuda = cuda;
    } else if (cuda != first_cuda) {
      marks.push_back({one.line, "pins_of_other_cuda", first->requirement, 0, {}, {}, {}});
    }
  }
  all_.clear();
}

}  // namespace berth::doctor::source
