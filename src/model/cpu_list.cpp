#include "model/cpu_list.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/text_parts.hpp"

namespace berth::model {
namespace {
constexpr int kMostCpus = 8192;

bool read_cpu(std::string_view& text, int& cpu) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), cpu);
  if (problem != std::errc() || cpu < 0 || cpu >= kMostCpus) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}
}  // namespace

std::optional<std::vector<int>> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  text = trim(text);
  if (text.empty()) return cpus;
  for (std::string_view part : split(text, ',')) {
    int first = 0;
    if (!read_cpu(part, first)) return std::nullopt;
    int last = first;
    if (!part.empty() && part[0] == '-') {
      part.remove_prefix(1);
      if (!read_cpu(part, last) || last < first) return std::nullopt;
    }
    if (!part.empty() || cpus.size() > kMostCpus) return std::nullopt;
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string show_cpu_list(const std::vector<int>& cpus) {
  std::string out;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t j = i;
    while (j + 1 < cpus.size() && cpus[j + 1] == cpus[j] + 1) ++j;
    if (!out.empty()) out += ',';
    out += std::to_string(cpus[i]);
    if (j > i) out += '-' + std::to_string(cpus[j]);
    i = j + 1;
  }
  return out;
}

std::vector<int> intersection(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

}  // namespace berth::model
