#include "output/header.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "model/device_use.hpp"
#include "output/words.hpp"

namespace berth::output {
namespace {

// widest and narrowest gap between the parts, in columns
constexpr int kWidestGap = 4, kNarrowestGap = 2;
// at most this many models are named; the others are only counted
constexpr std::size_t kMostModels = 2;

struct Models {
  Tally names;
  int total = 0;
};

Models models_of(const model::Snapshot& snapshot) {
  Models models;
  for (const model::Device& device : snapshot.devices) {
    if (!model::is_gpu(device)) continue;
    ++models.total;
    const model::Device& told = namesake(snapshot, device);
    models.names.add(printable(told.name.empty() ? told.vendor_name : told.name));
  }
  return models;
}

std::string gpu_part(const model::Snapshot& snapshot, const Models& models) {
  if (models.total == 0) {
    const bool unmanaged = std::any_of(snapshot.devices.begin(), snapshot.devices.end(),
                                       [](const model::Device& d) { return !d.managed; });
    return std::string(unmanaged ? tr("no GPU that can be used here") : tr("no GPU here"));
  }
  if (models.names.counts.size() > kMostModels)
    return text("{} GPUs of {} models", models.total, models.names.counts.size());
  std::vector<std::string> parts;
  for (const auto& [name, count] : models.names.counts)
    parts.push_back(fmt::format("{} × {}", count, clip(name, 40)));
  return join(parts, ", ");
}

std::string driver_part(const model::Snapshot& snapshot, const Models& models) {
  const model::Driver& driver = snapshot.driver;
  if (driver.state == "ok") {
    const std::string version = printable(driver.version);
    // not known, because reading the version would have woken a GPU
    if (version.empty()) return "";
    return driver.cuda_version.empty()
               ? text("driver {}", version)
               : text("driver {}, CUDA ≤ {}", version, printable(driver.cuda_version));
  }
  if (driver.state == "starting") return std::string(tr("driver starting"));
  if (driver.state == "no answer") return std::string(tr("driver: no answer"));
  if (driver.state == "error") return std::string(tr("driver: error"));
  return models.total > 0 ? ""
                          : std::string(tr("driver none"));  // machines with GPUs of other vendors
                                                             // do not need NVIDIA's driver
}

std::string cpu_part(const model::Host& host, bool name_it) {
  const model::CpuBudget& cpu = host.cpu;
  model::Device named;
  named.name = host.cpu_model;
  std::string out = name_it && !host.cpu_model.empty() ? clip(short_name(named), 40) + ", " : "";
  if (cpu.cores_total == 0) return out + std::string(tr("cores not known"));
  const int total = std::max(cpu.cores_total, cpu.cores_usable);
  if (total == cpu.cores_usable) return out + text_n("{} core", "{} cores", total, total);
  if (name_it)
    return out + text_n("{} core usable", "{} cores usable", cpu.cores_usable, cpu.cores_usable);
  return out + text("{} cores, {} usable", total, cpu.cores_usable);
}

std::string memory_part(const model::CpuBudget& cpu) {
  const std::uint64_t total = cpu.memory_limit_bytes.value_or(cpu.memory_total_bytes);
  if (total == 0) return "";
  if (!cpu.memory_available_bytes) return show_bytes(total);
  return text("{} free", show_part(*cpu.memory_available_bytes, total));
}

}  // namespace

std::string header(const model::Snapshot& snapshot, const Terminal& terminal) {
  const Models models = models_of(snapshot);
  const model::Host& host = snapshot.host;
  std::vector<std::string> parts{gpu_part(snapshot, models), driver_part(snapshot, models),
                                 cpu_part(host, models.total == 0), memory_part(host.cpu)};
  if (host.simulated) parts.emplace_back(tr("simulated"));
  if (host.wsl)
    parts.emplace_back("WSL");
  else if (!host.container.empty())
    parts.push_back(text("in {}", printable(host.container)));

  std::erase(parts, "");
  int width = -kWidestGap;
  for (const std::string& part : parts) width += display_width(part) + kWidestGap;
  const auto gaps = static_cast<int>(parts.size()) - 1;
  int gap = kWidestGap;
  while (gap > kNarrowestGap && width - (kWidestGap - gap) * gaps > terminal.width) --gap;
  if (width - (kWidestGap - gap) * gaps > terminal.width)
    gap = kWidestGap;  // the text needs more than one line, so use the wide gap again

  std::string out;
  int used = 0;
  for (const std::string& part : parts) {
    if (used > 0 && used + gap + display_width(part) > terminal.width) {
      out += "\n";
      used = 0;
    }
    if (used > 0) out += std::string(static_cast<std::size_t>(gap), ' ');
    used += display_width(part) + (used > 0 ? gap : 0);
    out += out.empty() ? terminal.paint(Style::kBold, part) : part;
  }
  return out + "\n";
}

/// Avoids a last line that has only an identifier such as "(E0302)": moves the word before it to
/// that line.
void keep_identifier_company(std::vector<std::string>& lines) {
  if (lines.size() < 2 || !lines.back().starts_with("(E") || lines.back().size() > 8) return;
  std::string& before = lines[lines.size() - 2];
  const auto blank = before.rfind(' ');
  if (blank == std::string::npos) return;
  lines.back() = before.substr(blank + 1) + " " + lines.back();
  before.resize(blank);
}

std::string labelled(std::string_view label, std::string_view says, int label_width,
                     const Terminal& terminal, Style style) {
  std::string out;
  std::vector<std::string> wrapped = wrap(says, std::max(20, terminal.width - label_width));
  keep_identifier_company(wrapped);
  for (const std::string& line : wrapped) {
    out += out.empty() ? terminal.paint(style, pad(label, label_width))
                       : std::string(static_cast<std::size_t>(label_width), ' ');
    out += line + "\n";
  }
  return out;
}

std::string driver_problem(const model::Snapshot& snapshot, const Terminal& terminal) {
  const model::Driver& driver = snapshot.driver;
  if (driver.message.empty()) return "";
  const std::string label(tr("driver"));
  const int width = display_width(label) + 3;
  const std::string id = driver.error_id.empty() ? "" : " (" + driver.error_id + ")";
  std::string out = labelled(label, printable(driver.message) + id, width, terminal,
                             driver.state == "error" ? Style::kRed : Style::kYellow);
  for (const std::string_view line : split(driver.hint, '\n'))
    if (!trim(line).empty()) out += labelled("", printable(line), width, terminal);
  return out;
}

}  // namespace berth::output
