// Reads what gres.conf says about GPUs, on nodes that run slurmd.
#include <cctype>

#include "base/file.hpp"
#include "base/text_parts.hpp"
#include "doctor/facts/container.hpp"
#include "doctor/knowledge/config_lines.hpp"
#include "doctor/read/collectors.hpp"
#include "doctor/read/slurm.hpp"
#include "model/cpu_list.hpp"

namespace berth::doctor {
namespace {

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return small;
}

/// Adds the names that "/dev/nvidia[0-3,5]" stands for, five in this case.
void add_files(std::string_view value, std::vector<std::string>& files) {
  const auto open = value.find('['), close = value.find(']');
  if (open == std::string_view::npos) {
    files.emplace_back(value);
    return;
  }
  if (close == std::string_view::npos || close < open) return;
  const auto numbers = model::parse_cpu_list(value.substr(open + 1, close - open - 1));
  if (!numbers) return;
  for (const int number : *numbers)
    files.push_back(std::string(value.substr(0, open)) + std::to_string(number));
}

void read_line(std::string_view line, SlurmSettings& settings) {
  const std::string small = lower(line);
  // A line with node names comes from a file for the whole cluster, and may be about another node.
  if (small.find("nodename=") != std::string::npos) return;
  for (const std::string_view word : words_between_blanks(line)) {
    const std::string key = lower(word.substr(0, word.find('=')));
    const std::string_view value = word.substr(std::min(word.find('=') + 1, word.size()));
    if (key == "autodetect") settings.by_nvml = lower(value) == "nvml";
    if (key != "file") continue;
    for (const std::string_view file : split_outside_brackets(value)) {
      // Skip MIG devices, which have other names: only "/dev/nvidia" with a number is a GPU.
      constexpr std::string_view kBegin = "/dev/nvidia";
      const bool is_gpu = file.starts_with(kBegin) && file.size() > kBegin.size() &&
                          (file[kBegin.size()] == '[' ||
                           std::isdigit(static_cast<unsigned char>(file[kBegin.size()])) != 0);
      if (is_gpu) add_files(file, settings.files);
    }
  }
}

}  // namespace

std::string slurm_plugin_folder(const Tree& tree) {
  for (const std::string folder :
       {"/usr/lib/x86_64-linux-gnu/slurm-wlm", "/usr/lib/x86_64-linux-gnu/slurm",
        "/usr/lib/aarch64-linux-gnu/slurm-wlm", "/usr/lib/aarch64-linux-gnu/slurm",
        "/usr/lib64/slurm", "/usr/lib/slurm", "/usr/local/lib/slurm", "/opt/slurm/lib/slurm"})
    if (tree.exists(folder + "/gres_gpu.so")) return folder;
  return "";
}

Fact<SlurmSettings> collect_slurm(const Tree& tree) {
  if (!tree.exists("/usr/sbin/slurmd") && !tree.exists("/usr/local/sbin/slurmd") &&
      !tree.exists("/opt/slurm/sbin/slurmd"))
    return {};
  for (const char* path : {"/etc/slurm/gres.conf", "/etc/slurm-llnl/gres.conf",
                           "/run/slurm/conf/gres.conf", "/opt/slurm/etc/gres.conf"}) {
    const auto text = tree.read(path);
    if (text.is_unreadable()) return text.why();
    if (!text) continue;
    SlurmSettings settings;
    settings.path = path;
    for (const std::string& line : joined_lines(*text, true)) read_line(line, settings);
    if (const std::string folder = slurm_plugin_folder(tree); !folder.empty()) {
      settings.plugin_folder = folder;
      if (tree.exists(folder + "/gpu_nvml.so")) settings.nvml_plugin = folder + "/gpu_nvml.so";
    }
    return settings;
  }
  return {};
}

}  // namespace berth::doctor
