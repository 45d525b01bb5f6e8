// The GPUs of data/gpus.toml, by name and by PCI id.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/json.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "plan/catalogue.hpp"
#include "plan/names.hpp"

// berth_embed() in CMake generates these symbols.
extern "C" {
extern const char berth_plan_gpus[];
extern const char berth_plan_gpus_end[];
}

namespace berth::plan {
namespace {

using Json = nlohmann::json;
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

Gpu gpu_in(const Json& row) {
  Gpu gpu;
  gpu.name = row.at("name").get<std::string>();
  const auto words = [&](const char* key) {
    return row.contains(key) ? row.at(key).get<std::vector<std::string>>()
                             : std::vector<std::string>();
  };
  gpu.other_names = words("nvml_names");
  for (std::string& alias : words("aliases")) gpu.other_names.push_back(std::move(alias));
  const std::string vendor = row.value("vendor", "");
  const std::string vendor_id = vendor == "nvidia" ? "10de:" : vendor == "amd" ? "1002:" : "8086:";
  for (const std::string& device : words("pci_device_ids"))
    gpu.pci_ids.push_back(vendor_id + device);
  gpu.subsystem_ids = words("subsystem_ids");
  if (row.contains("power_range_w"))
    gpu.least_power_watts = row.at("power_range_w").at(0).get<double>();
  gpu.memory_bytes = row.value("memory_gb", 0.0) * kGiB;
  const auto peak = [&](const char* key, double unit) {
    return row.contains(key) ? std::optional(row.at(key).get<double>() * unit) : std::nullopt;
  };
  gpu.fp16_flop_per_second = peak("fp16_tflops", 1e12);
  gpu.power_watts = peak("tdp_w", 1);
  gpu.fp32_flop_per_second = peak("fp32_tflops", 1e12);
  gpu.tf32_flop_per_second = peak("tf32_tflops", 1e12);
  gpu.fp64_flop_per_second = peak("fp64_tflops", 1e12);
  gpu.memory_bytes_per_second = peak("bandwidth_gb_s", 1e9);
  // The catalogue has the rate of both directions of NVLink together, so half of it is used.
  if (row.value("interconnect", "").starts_with("NVLink"))
    gpu.nvlink_bytes_per_second = peak("interconnect_gb_s", 0.5e9);
  return gpu;
}

const std::vector<Gpu>& known_gpus() {
  // Parse the catalogue only once, because reading a price file looks up about 140 names.
  static const std::vector<Gpu> known = [] {
    std::vector<Gpu> out;
    const Json document = Json::parse(berth_plan_gpus, berth_plan_gpus_end);
    for (const Json& row : document.at("gpus").at("gpu")) out.push_back(gpu_in(row));
    return out;
  }();
  return known;
}

std::string hint_of(const GpuCommand& command, std::string_view gpu) {
  return command.before + " --gpu " + shell_word(gpu) + command.after;
}

Error several(std::string_view what, const std::vector<Gpu>& found, const std::string& hint) {
  constexpr std::size_t kMostNames = 8;
  std::string names;
  for (std::size_t i = 0; i < found.size() && i < kMostNames; ++i)
    names += (i > 0 ? ", " : "") + found[i].name;
  if (found.size() > kMostNames) names += ", …";
  return {ErrorCode::kNotFound, "E0972",
          text("'{}' can be several GPUs of the catalogue: {}", printable(what), names), hint};
}

/// The words in lower case, without the manufacturer: {"rtx", "4090"} for "NVIDIA GeForce RTX
/// 4090".
std::set<std::string> words_of(std::string_view name) {
  std::set<std::string> out;
  std::string word;
  for (const char c : std::string(name) + " ") {
    const char small = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if ((small >= 'a' && small <= 'z') || (small >= '0' && small <= '9')) {
      word += small;
      continue;
    }
    if (!word.empty() && word != "nvidia" && word != "geforce" && word != "amd" && word != "intel")
      out.insert(word);
    word.clear();
  }
  return out;
}

/// The name without the word for the product line, which many people leave out.
std::string bare(std::string_view name) {
  std::string out = plain(name);
  for (const std::string_view line : {"rtx", "gtx", "tesla", "quadro", "instinct", "radeon", "amd"})
    if (out.size() > line.size() + 1 && out.starts_with(line)) out.erase(0, line.size());
  return out;
}

bool is_laptop(std::string_view plain_name) {
  return plain_name.find("laptop") != std::string_view::npos ||
         plain_name.find("mobile") != std::string_view::npos;
}

/// How well a name matches. 3: it is equal. 2: it is equal except for the product line. 1: it
/// contains the given text, or all of its words. 0: it does not match.
int match(std::string_view given, std::string_view known) {
  constexpr std::size_t kLeastPart = 3;
  const std::string wanted = plain(given), name = plain(known);
  if (wanted.empty()) return 0;
  if (wanted == name) return 3;
  if (bare(given) == bare(known)) return 2;
  if (is_laptop(name) && !is_laptop(wanted)) return 0;
  const std::set<std::string> words = words_of(given), all = words_of(known);
  const bool has_words = std::includes(all.begin(), all.end(), words.begin(), words.end());
  const bool is_part = wanted.size() >= kLeastPart && name.find(wanted) != std::string::npos;
  return (has_words && !words.empty() && wanted.size() >= kLeastPart) || is_part ? 1 : 0;
}

bool have_same_memory(const std::vector<Gpu>& gpus) {
  return std::all_of(gpus.begin(), gpus.end(),
                     [&](const Gpu& gpu) { return gpu.memory_bytes == gpus.front().memory_bytes; });
}

std::optional<std::string> pci_id_in(std::string_view text) {
  constexpr std::size_t kLength = 9;  // length of a PCI id such as "10de:2684"
  if (text.size() != kLength || text[4] != ':') return std::nullopt;
  std::string out;
  for (const char c : text) {
    const char small = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool is_hex = (small >= '0' && small <= '9') || (small >= 'a' && small <= 'f');
    if (!is_hex && (c != ':' || out.size() != 4)) return std::nullopt;
    out += small;
  }
  return out;
}

/// Parses a PCI id, which a subsystem id or a memory size may follow: "10de:2d04",
/// "10de:25b6:10de:157e", "10de:2d04 16GB".
std::optional<GpuIds> ids_in(std::string_view text) {
  constexpr std::size_t kLength = 9;
  GpuIds ids;
  const auto device = pci_id_in(text.substr(0, kLength));
  if (!device) return std::nullopt;
  ids.pci_id = *device;
  std::string_view rest = text.substr(kLength);
  if (rest.empty()) return ids;
  if (rest.size() > kLength && (rest[0] == ':' || rest[0] == '/'))
    if (const auto subsystem = pci_id_in(rest.substr(1, kLength))) {
      ids.subsystem_id = *subsystem;
      rest.remove_prefix(kLength + 1);
    }
  rest = trim(rest);
  if (rest.empty()) return ids;
  double size = 0;
  const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
  const std::string unit = plain(std::string_view(end, rest.data() + rest.size()));
  if (problem != std::errc() || (unit != "gb" && unit != "gib" && unit != "g")) return std::nullopt;
  ids.memory_bytes = size * kGiB;
  return ids;
}

}  // namespace

Result<Gpu> find_gpu(const GpuIds& ids, const GpuCommand& command) {
  std::vector<Gpu> found;
  for (const Gpu& gpu : known_gpus())
    if (std::find(gpu.pci_ids.begin(), gpu.pci_ids.end(), ids.pci_id) != gpu.pci_ids.end())
      found.push_back(gpu);
  if (found.empty())
    return Error{ErrorCode::kNotFound, "E0972",
                 text("no GPU of the catalogue has the PCI id {}", printable(ids.pci_id)),
                 hint_of(command, "RTX 4090")};
  if (found.size() > 1 && !ids.subsystem_id.empty()) {
    const auto of_subsystem = std::find_if(found.begin(), found.end(), [&](const Gpu& gpu) {
      const auto& known = gpu.subsystem_ids;
      return std::find(known.begin(), known.end(), ids.subsystem_id) != known.end();
    });
    if (of_subsystem != found.end()) return *of_subsystem;
  }
  // A driver reports up to a tenth less than the card's nominal memory.
  constexpr double kTolerance = 0.1;
  if (found.size() > 1 && ids.memory_bytes)
    std::erase_if(found, [&](const Gpu& gpu) {
      return std::abs(gpu.memory_bytes - *ids.memory_bytes) > kTolerance * gpu.memory_bytes;
    });
  if (found.size() == 1) return found.front();
  if (found.empty())
    return Error{ErrorCode::kNotFound, "E0972",
                 text("no GPU of the catalogue with the PCI id {} has this memory size",
                      printable(ids.pci_id)),
                 hint_of(command, printable(ids.pci_id))};
  const std::string example =
      have_same_memory(found)
          ? found.front().name
          : fmt::format("{} {:.0f}GB", ids.pci_id, found.front().memory_bytes / kGiB);
  return several(ids.pci_id, found, hint_of(command, example));
}

Result<Gpu> find_gpu(std::string_view name, const GpuCommand& command) {
  if (const auto ids = ids_in(name)) return find_gpu(*ids, command);
  std::vector<std::string> names;
  std::vector<Gpu> found;
  int best = 0;
  for (const Gpu& gpu : known_gpus()) {
    names.push_back(gpu.name);
    int here = match(name, gpu.name);
    for (const std::string& other : gpu.other_names) here = std::max(here, match(name, other));
    if (here == 0 || here < best) continue;
    if (here > best) found.clear();
    best = here;
    found.push_back(gpu);
  }
  // If all variants that match, such as PCIe and SXM, have the same memory, return the first.
  if (!found.empty() && have_same_memory(found)) return found.front();
  if (!found.empty()) return several(name, found, hint_of(command, found.front().name));
  const std::string near = near_names(name, names);
  return Error{ErrorCode::kNotFound, "E0972",
               text("'{}' does not name exactly one GPU of the catalogue; similar: {}",
                    printable(name), near),
               hint_of(command, near.substr(0, near.find(',')))};
}

std::vector<Gpu> gpus() {
  std::vector<Gpu> out;
  for (const Gpu& gpu : known_gpus())
    if (gpu.memory_bytes > 0) out.push_back(gpu);
  std::stable_sort(out.begin(), out.end(),
                   [](const Gpu& a, const Gpu& b) { return a.memory_bytes < b.memory_bytes; });
  return out;
}

}  // namespace berth::plan
