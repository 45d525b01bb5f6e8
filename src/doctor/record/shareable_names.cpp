#include "doctor/record/shareable_names.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cctype>

#include "base/text_parts.hpp"
#include "doctor/record/share.hpp"

namespace berth::doctor {
namespace {

bool is_path_word(std::string_view word) {
  static const std::set<std::string_view> all(share::path_words().begin(),
                                              share::path_words().end());
  return all.contains(word);
}

bool is_library(std::string_view name) {
  return name.find(".so") != std::string_view::npos &&
         share::begins_with_any(name, share::libraries());
}

/// Whether the name is that of Python package metadata, or of a file that a known package contains.
bool is_of_package(std::string_view name) {
  return name.ends_with(".dist-info") || name.ends_with(".egg-info") || name.ends_with(".pth") ||
         name.ends_with(".libs") || name.starts_with("_rocm_sdk_") ||
         (name.starts_with("python") && is_common(name.substr(0, name.find('.'))));
}

bool is_below_packages(std::string_view folder) {
  return folder.find("/site-packages/") != std::string_view::npos ||
         folder.find("/dist-packages/") != std::string_view::npos;
}

/// Whether all names in this folder may be kept, because they come from the kernel or from vendors.
bool tells_all(std::string_view folder) {
  return share::begins_with_any(folder, share::open_folders()) ||
         folder.find("/Cellar/ggml") != std::string_view::npos;
}

/// Whether the order of the names in this folder matters, because programs read its files in that
/// order.
bool is_ordered(std::string_view folder) {
  return std::any_of(share::ordered_folders().begin(), share::ordered_folders().end(),
                     [&](std::string_view end) { return folder.ends_with(end); });
}

/// The words in a name that rules search for, each with "-" before it. The name that replaces this
/// one contains them too.
std::string asked_words(std::string_view name) {
  std::string found;
  for (const char* word :
       {"nvidia", "remove", "sbsa", "gpu", "hami", "volcano", "vcuda", "mps", "system"})
    if (name.find(word) != std::string_view::npos) found += std::string("-") + word;
  return found;
}

std::string ending_of(std::string_view name) {
  for (const std::string_view ending : share::endings())
    if (name.ends_with(ending)) return std::string(ending);
  return "";
}

/// Replaces private names with names that have the same position in a sorted list.
std::map<std::string, std::string> in_order(const std::vector<std::string>& names) {
  std::map<std::string, std::string> redacted;
  std::string before = "0-";
  int number = 0;
  for (const std::string& name : names) {
    if (is_common(name)) {
      redacted[name] = before = name;
      continue;
    }
    redacted[name] =
        fmt::format("{}x{:03}{}{}", before, ++number, asked_words(name), ending_of(name));
  }
  return redacted;
}

/// A package's name as its folder and its metadata write it: in lower case, with "_".
std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name)
    plain +=
        c == '-' || c == '.' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

/// Whether the name is a MAC address, which redaction replaces everywhere: "enx001122334455".
bool has_address(std::string_view name) {
  return name.size() == 15 &&
         share::begins_with_any(name, std::to_array<std::string_view>({"enx", "wlx", "wwx"}));
}

std::map<std::string, std::string> redacted_interfaces(const std::vector<std::string>& names,
                                                       std::string_view asked) {
  std::map<std::string, std::string> redacted;
  int number = 0;
  for (const std::string& name : names) {
    bool is_asked = is_common(name) || has_address(name);
    for (const std::string_view word : split(asked, ','))
      is_asked = is_asked || (!word.empty() && name.starts_with(word));
    redacted[name] =
        is_asked ? name : fmt::format("{}{:03}", name.starts_with("ib") ? "ibx" : "if", ++number);
  }
  return redacted;
}

}  // namespace

bool is_common(std::string_view name) {
  std::size_t digits = 0;
  for (std::size_t at = 0; at < name.size();) {
    const auto is_letter = [&](std::size_t i) {
      return std::isalpha(static_cast<unsigned char>(name[i])) != 0;
    };
    if (is_letter(at)) {
      std::string word;
      while (at < name.size() && is_letter(at))
        word += static_cast<char>(std::tolower(static_cast<unsigned char>(name[at++])));
      if (!is_path_word(word)) return false;
      digits = 0;
    } else if (std::isdigit(static_cast<unsigned char>(name[at])) != 0) {
      // a number of more than 8 digits is a serial number or an address
      if (++digits > 8) return false;
      ++at;
    } else if (std::string_view("._-+:@~/").find(name[at]) != std::string_view::npos) {
      digits = 0;
      ++at;
    } else {
      return false;
    }
  }
  return true;
}

std::map<std::string, std::string> shareable_names(const std::string& folder,
                                                   const std::vector<std::string>& names,
                                                   std::string_view interfaces) {
  if (folder == "/sys/class/net") return redacted_interfaces(names, interfaces);
  if (is_ordered(folder)) return in_order(names);
  std::map<std::string, std::string> redacted;
  std::set<std::string> packages;
  for (const std::string& name : names)
    if (name.ends_with(".dist-info") || name.ends_with(".egg-info"))
      packages.insert(plain_name(name.substr(0, name.find('-'))));
  const bool all = tells_all(folder), is_below = is_below_packages(folder);
  const bool versions =
      folder.ends_with("/versions") || folder == "/lib/modules" ||
      share::begins_with_any(folder, std::to_array<std::string_view>(
                                         {"/var/lib/dkms/nvidia", "/var/cache/akmods/nvidia"}));
  for (const std::string& name : names)
    if (all || packages.contains(plain_name(name)) || (!is_below && is_common(name)) ||
        is_library(name) || is_of_package(name) ||
        (versions && std::isdigit(static_cast<unsigned char>(name[0])) != 0) ||
        (is_below && (name.ends_with(".so") || name.find(".so.") != std::string::npos) &&
         (name[0] == '_' || name.starts_with("lib"))) ||
        (folder == "/var/lib/dpkg/info" &&
         share::begins_with_any(name, std::to_array<std::string_view>(
                                          {"nvidia-driver-", "libnvidia-compute-", "libcuda1"}))) ||
        (folder == "/var/lib/pacman/local" && name.starts_with("linux-firmware")) ||
        (folder.ends_with("/conda-meta") && name.ends_with(".json")) ||
        (folder.ends_with("/rocblas/library") && name.find("gfx") != std::string::npos) ||
        (folder == "/dev" && name.starts_with("nv")))
      redacted[name] = name;
  return redacted;
}

ShareablePaths::ShareablePaths(const Recording& seen, std::string_view interfaces,
                               std::string words)
    : seen_(seen), words_(std::move(words)) {
  std::set<std::string> built;  // folders in which PyTorch builds extensions, each with a lock
  for (const auto& [path, file] : seen.files)
    if (path.ends_with("/lock")) built.insert(path.substr(0, path.rfind('/', path.size() - 6)));
  for (const auto& [folder, names] : seen.folders) {
    auto& redacted = folders_[folder] =
        built.contains(folder) ? in_order(names) : shareable_names(folder, names, interfaces);
    for (const std::string& name : names) {
      const auto found = redacted.find(name);
      if (found != redacted.end() && found->second == name) continue;
      ++hidden_names_;
      // If the name of a link is private, its target is private too.
      if (found != redacted.end()) hide_target(folder + "/" + name);
    }
  }
  hide_devices();
  take_lists();
}

void ShareablePaths::take_lists() {
  for (const auto& [path, file] : seen_.files) {
    const auto text = file.parts.find(0);
    if (text == file.parts.end() ||
        !(path.starts_with("/etc/ld.so.conf") || path.ends_with(".pth")))
      continue;
    for (const std::string_view row : split(text->second, '\n'))
      if (const auto folder = trim(row.substr(0, row.find('#'))); folder.starts_with('/'))
        listed_.emplace(folder);
  }
}

/// Hides power supplies of devices such as a mouse or headphones. They do not power the machine,
/// and their names may contain a serial number or an address.
void ShareablePaths::hide_devices() {
  const std::string folder = "/sys/class/power_supply/";
  for (auto file = seen_.files.lower_bound(folder); file != seen_.files.end(); ++file) {
    const auto& [path, content] = *file;
    if (!path.starts_with(folder)) break;
    const auto part = content.parts.find(0);
    if (!path.ends_with("/scope") || part == content.parts.end() ||
        !part->second.starts_with("Device"))
      continue;
    const std::string device = path.substr(0, path.rfind('/'));
    hide_target(device);
    hidden_.insert(device);
    ++hidden_names_;
  }
}

/// Hides all targets in the chain of links that starts at `path`. Otherwise, a file would be
/// written under the private name of its real path.
void ShareablePaths::hide_target(std::string path) {
  for (int steps = 0; steps < 40; ++steps) {
    const auto link = seen_.links.find(path);
    if (link == seen_.links.end()) return;
    std::string target = link->second;
    if (!target.starts_with('/')) {
      std::vector<std::string_view> parts =
          split(std::string_view(path).substr(0, path.rfind('/')), '/');
      for (const std::string_view part : split(link->second, '/')) {
        if (part == ".." && !parts.empty()) parts.pop_back();
        if (part != ".." && part != "." && !part.empty()) parts.push_back(part);
      }
      target.clear();
      for (const std::string_view part : parts)
        if (!part.empty()) target += "/" + std::string(part);
    }
    // A target with a common name is kept, for example one in /etc/alternatives.
    if (!is_common(target)) hidden_.insert(target);
    path = target;
  }
}

bool ShareablePaths::is_hidden(const std::string& path) const {
  if (hidden_.empty()) return false;
  for (auto slash = path.size(); slash != std::string::npos && slash > 0;
       slash = path.rfind('/', slash - 1))
    if (hidden_.contains(std::string_view(path).substr(0, slash))) return true;
  return false;
}

std::string ShareablePaths::shareable(const std::string& path) const {
  if (is_hidden(path)) return "";
  std::string out;
  for (std::size_t slash = 0; slash < path.size();) {
    const std::size_t end = std::min(path.find('/', slash + 1), path.size());
    const std::string name = path.substr(slash + 1, end - slash - 1);
    out += "/" + name;
    if (const auto folder = folders_.find(std::string_view(path).substr(0, slash));
        folder != folders_.end())
      if (const auto by = folder->second.find(name); by != folder->second.end())
        out.replace(out.size() - name.size(), name.size(), by->second);
    slash = end;
  }
  return out.empty() ? path : out;
}

std::vector<std::string> ShareablePaths::names_in(const std::string& folder) const {
  std::vector<std::string> names;
  const auto found = folders_.find(folder);
  if (found == folders_.end()) return names;
  for (const auto& [name, redacted] : found->second)
    if (!is_hidden(folder + "/" + name)) names.push_back(redacted);
  return names;
}

bool ShareablePaths::was_seen(const std::string& path) const {
  const auto is_below = [&](const auto& map) {
    const auto found = map.lower_bound(path);
    return found != map.end() && (found->first == path || found->first.starts_with(path + "/"));
  };
  return is_below(seen_.files) || is_below(seen_.links) || is_below(seen_.specials);
}

bool ShareablePaths::matters(const std::string& path) const {
  return is_common(path) || was_seen(path) || words_.find(path) != std::string::npos ||
         !names_in(path).empty();
}

bool ShareablePaths::is_omitted(const std::string& folder) const {
  const std::size_t slash = folder.rfind('/');
  const auto above = folders_.find(std::string_view(folder).substr(0, slash));
  const bool is_unnamed = above != folders_.end() && !above->second.empty() &&
                          !above->second.contains(folder.substr(slash + 1));
  return (is_unnamed || listed_.contains(folder)) && !seen_.looked_at.contains(folder) &&
         !matters(folder);
}

}  // namespace berth::doctor
