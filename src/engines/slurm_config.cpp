#include "engines/slurm_config.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "doctor/knowledge/config_lines.hpp"

namespace berth::engines {
namespace {

constexpr std::size_t kMostNames = 65'536;
constexpr int kMostIncludes = 8;

/// Adds the names for a list of numbers: "1-3,07" becomes "1", "2", "3" and "07". Leading zeros
/// stay in the names.
void add_numbers(std::string_view head, std::string_view numbers, std::string_view tail,
                 std::vector<std::string>& names) {
  for (const std::string_view part : split(numbers, ',')) {
    const auto dash = part.find('-');
    const std::string_view first_text = part.substr(0, dash);
    const std::string_view last_text =
        dash == std::string_view::npos ? first_text : part.substr(dash + 1);
    const auto is_number = [](std::string_view text) {
      return !text.empty() && text.size() < 9 && std::all_of(text.begin(), text.end(), [](char c) {
        return std::isdigit(static_cast<unsigned char>(c)) != 0;
      });
    };
    if (!is_number(first_text) || !is_number(last_text)) continue;
    const long first = std::stol(std::string(first_text));
    const long last = std::stol(std::string(last_text));
    for (long n = first; n <= last && names.size() < kMostNames; ++n)
      names.push_back(fmt::format("{}{:0{}}{}", head, n, first_text.size(), tail));
  }
}

std::string without_quotes(std::string_view value) {
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
    value = value.substr(1, value.size() - 2);
  return std::string(value);
}

std::optional<std::uint64_t> count_of(std::string_view text) {
  if (text.empty()) return std::nullopt;
  std::uint64_t unit = 1;
  const char last = static_cast<char>(std::toupper(static_cast<unsigned char>(text.back())));
  if (last == 'K') unit = 1ULL << 10U;
  if (last == 'M') unit = 1ULL << 20U;
  if (last == 'G') unit = 1ULL << 30U;
  if (unit > 1) text.remove_suffix(1);
  const auto number = to_number(text);
  if (!number || *number < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*number) * unit;
}

std::string value_of(const SlurmWords& words, std::string_view key) {
  const auto at = words.find(key);
  return at == words.end() ? "" : at->second;
}

/// Returns the text with each Include line replaced by the file that it names. A file that cannot
/// be read is left out.
std::string with_includes(const std::string& folder, std::string_view text, int depth) {
  std::string all;
  for (const std::string& line : doctor::joined_lines(text, true)) {
    if (lower_case(line.substr(0, 8)) != "include ") {
      all += line + "\n";
      continue;
    }
    const std::string name(trim(std::string_view(line).substr(8)));
    const auto more = slurp(name.starts_with('/') ? name : folder + "/" + name, 1 << 20);
    if (more && depth < kMostIncludes) all += with_includes(folder, *more, depth + 1);
  }
  return all;
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return small;
}

std::vector<std::string> expand_names(std::string_view list) {
  std::vector<std::string> names;
  for (const std::string_view one : split_outside_brackets(list)) {
    const auto open = one.find('['), close = one.find(']');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
      names.emplace_back(one);
      continue;
    }
    add_numbers(one.substr(0, open), one.substr(open + 1, close - open - 1), one.substr(close + 1),
                names);
    if (names.size() >= kMostNames) break;
  }
  return names;
}

SlurmWords words_of_line(std::string_view line) {
  SlurmWords words;
  for (const std::string_view word : doctor::words_between_blanks(line)) {
    const auto equals = word.find('=');
    if (equals == std::string_view::npos) continue;
    words[lower_case(word.substr(0, equals))] = without_quotes(word.substr(equals + 1));
  }
  return words;
}

std::vector<GresLine> parse_gres(std::string_view text) {
  std::vector<GresLine> lines;
  for (const std::string& line : doctor::joined_lines(text, true)) {
    const SlurmWords words = words_of_line(line);
    if (words.empty()) continue;
    GresLine one;
    one.name = lower_case(value_of(words, "name"));
    one.type = lower_case(value_of(words, "type"));
    one.nodes = expand_names(value_of(words, "nodename"));
    const std::string slice = value_of(words, "multiplefiles");
    one.is_slice = !slice.empty();
    one.files = expand_names(one.is_slice ? slice : value_of(words, "file"));
    one.links = value_of(words, "links");
    one.cores = value_of(words, "cores");
    if (one.cores.empty()) one.cores = value_of(words, "cpus");
    one.autodetect = lower_case(value_of(words, "autodetect"));
    one.count = count_of(value_of(words, "count"));
    lines.push_back(std::move(one));
  }
  return lines;
}

void parse_slurm(std::string_view text, SlurmConfig& config) {
  SlurmWords defaults;
  for (const std::string& line : doctor::joined_lines(text, true)) {
    SlurmWords words = words_of_line(line);
    const std::string names = value_of(words, "nodename");
    if (words.contains("partitionname")) continue;
    if (names.empty()) {
      config.settings.merge(words);
      continue;
    }
    for (const auto& [key, value] : defaults) words.emplace(key, value);
    if (names == "DEFAULT") {
      words.erase("nodename");
      defaults = std::move(words);
      continue;
    }
    const auto all = expand_names(names), hosts = expand_names(value_of(words, "nodehostname"));
    for (std::size_t i = 0; i < all.size(); ++i)
      config.nodes.push_back({all[i], i < hosts.size() ? hosts[i] : all[i], words});
  }
}

std::string SlurmConfig::setting(std::string_view key) const {
  return value_of(settings, key);
}

const SlurmNode* SlurmConfig::node(std::string_view name) const {
  const auto is_it = [](std::string_view one, std::string_view other) {
    return one.substr(0, one.find('.')) == other.substr(0, other.find('.'));
  };
  for (const SlurmNode& one : nodes)
    if (is_it(one.name, name)) return &one;
  for (const SlurmNode& one : nodes)
    if (is_it(one.host, name)) return &one;
  return nullptr;
}

Result<SlurmConfig> read_slurm_config(const std::string& folder) {
  std::error_code ignored;
  if (folder.empty() || !std::filesystem::exists(folder + "/slurm.conf", ignored))
    return Error{ErrorCode::kNotFound, "E1001",
                 folder.empty() ? text("no slurm.conf is found on this machine")
                                : text("{} has no slurm.conf", printable(folder)),
                 "scontrol show config | grep SLURM_CONF\nberth slurm check --conf FOLDER"};
  SlurmConfig config;
  config.folder = folder;
  const auto main = read_file(folder + "/slurm.conf", 8 << 20);
  if (!main) return main.error();
  parse_slurm(with_includes(folder, *main, 0), config);
  for (const char* name : {"gres.conf", "cgroup.conf"}) {
    const std::string path = folder + "/" + name;
    if (!std::filesystem::exists(path, ignored)) continue;
    const auto text = read_file(path, 8 << 20);
    if (!text) return text.error();
    const std::string whole = with_includes(folder, *text, 0);
    if (name[0] == 'g') {
      config.gres = parse_gres(whole);
      continue;
    }
    config.cgroup.emplace();
    for (const std::string_view line : split(whole, '\n'))
      config.cgroup->merge(words_of_line(line));
  }
  return config;
}

std::string slurm_folder() {
  std::error_code ignored;
  if (const auto given = env_nonempty("SLURM_CONF"))
    return std::filesystem::path(*given).parent_path().string();
  for (const char* folder :
       {"/etc/slurm", "/etc/slurm-llnl", "/run/slurm/conf", "/opt/slurm/etc", "/usr/local/etc"})
    if (std::filesystem::exists(std::string(folder) + "/slurm.conf", ignored)) return folder;
  return "";
}

}  // namespace berth::engines
