#include "engines/slurm_gres.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "base/text.hpp"
#include "engines/slurm_config.hpp"
#include "model/device_use.hpp"
#include "model/topology.hpp"

namespace berth::engines {
namespace {

/// The numbers in a name of a MIG device file: 0, 7, 0 for "gpu0/gi7/ci0/access". A number that is
/// missing is -1.
struct MigName {
  long gpu = -1, gpu_instance = -1, compute_instance = -1;
};
MigName mig_name(std::string_view path) {
  MigName name;
  for (const std::string_view part : split(path, '/')) {
    const auto number = [&](std::string_view head) -> long {
      if (!part.starts_with(head)) return -1;
      return static_cast<long>(to_number(part.substr(head.size())).value_or(-1));
    };
    if (const long n = number("gpu"); n >= 0) name.gpu = n;
    if (const long n = number("gi"); n >= 0) name.gpu_instance = n;
    if (const long n = number("ci"); n >= 0) name.compute_instance = n;
  }
  return name;
}

std::string file_of(const model::Device& device) {
  if (!device.minor_number) return "";
  return device.vendor == model::Vendor::kNvidia
             ? "/dev/nvidia" + std::to_string(*device.minor_number)
             : "/dev/dri/renderD" + std::to_string(*device.minor_number);
}

/// Returns the profile in the name of a partition: "1g.10gb" for "MIG 1g.10gb".
std::string profile_of(const model::Partition& part) {
  std::string_view name = part.name;
  if (name.starts_with("MIG ")) name.remove_prefix(4);
  return lower_case(name);
}

void add_slices(const model::Device& device, const MigMinors& minors, const Gres& whole,
                GresNode& node) {
  const unsigned gpu = device.minor_number.value_or(0);
  int unknown = 0;
  for (const model::Partition& part : device.partitions) {
    const unsigned instance = part.gpu_instance.value_or(0);
    const auto outer = minors.gpu_instances.find({gpu, instance});
    const auto inner =
        minors.compute_instances.find({gpu, {instance, part.compute_instance.value_or(0)}});
    if (!part.gpu_instance || !part.compute_instance || outer == minors.gpu_instances.end() ||
        inner == minors.compute_instances.end()) {
      ++unknown;
      continue;
    }
    Gres slice = whole;
    slice.is_slice = true;
    slice.type += "_" + profile_of(part);
    for (const unsigned minor : {outer->second, inner->second})
      slice.files.push_back("/dev/nvidia-caps/nvidia-cap" + std::to_string(minor));
    node.gpus.push_back(std::move(slice));
  }
  if (unknown > 0)
    node.notes.push_back(
        text_n("{} MIG instance of GPU {} is left out: /proc/driver/nvidia-caps/mig-minors does "
               "not name its device files",
               "{} MIG instances of GPU {} are left out: /proc/driver/nvidia-caps/mig-minors does "
               "not name their device files",
               unknown, unknown, device.index));
}

void add_device(const model::Device& device, const GresNode& around, const MigMinors& minors,
                GresNode& node) {
  Gres one;
  one.device = device.index;
  one.type = slurm_type(device.name);
  const std::string file = file_of(device);
  if (device.health == model::Health::kLost || device.health == model::Health::kNoAnswer) {
    node.notes.push_back(
        text("GPU {} is left out: it is {}", device.index, tr(model::name(device.health))));
    return;
  }
  if (file.empty()) {
    node.notes.push_back(text("GPU {} is left out: its device file is not known", device.index));
    return;
  }
  one.files = {file};
  if (around.cpus) one.cores = cores_near(*around.cpus, device.local_cpus);
  if (!device.mig_enabled.value_or(false)) {
    node.gpus.push_back(std::move(one));
    return;
  }
  if (device.partitions.empty())
    node.notes.push_back(
        text("GPU {} is left out: MIG is on, but there is no MIG instance", device.index));
  add_slices(device, minors, one, node);
}

/// Combines device files into one expression: "/dev/nvidia[0-1]" for "/dev/nvidia0",
/// "/dev/nvidia1". Files with different prefixes are separated by commas.
std::string joined_files(const std::vector<std::string>& files) {
  std::string out;
  for (std::size_t i = 0; i < files.size();) {
    const auto digits = files[i].find_last_not_of("0123456789") + 1;
    const std::string head = files[i].substr(0, digits);
    const long first = digits < files[i].size() ? std::stol(files[i].substr(digits)) : -1;
    std::size_t n = 1;
    while (first >= 0 && i + n < files.size() &&
           files[i + n] == head + std::to_string(first + static_cast<long>(n)))
      ++n;
    out += out.empty() ? "" : ",";
    out +=
        n == 1 ? files[i] : fmt::format("{}[{}-{}]", head, first, first + static_cast<long>(n) - 1);
    i += n;
  }
  return out;
}

bool is_consecutive(const std::string& one, const std::string& next) {
  return joined_files({one, next}).find('[') != std::string::npos;
}

/// Sets `links` of the GPUs. A node with MIG slices has no links, because slices cannot use NVLink.
void add_links(const std::vector<const model::Device*>& devices, GresNode& node) {
  std::vector<const model::Device*> listed;
  for (const Gres& one : node.gpus) {
    if (one.is_slice) return;
    listed.push_back(*std::find_if(devices.begin(), devices.end(), [&](const auto* device) {
      return device->index == one.device;
    }));
  }
  std::vector<std::string> links;
  std::set<std::uint32_t> counts;
  for (const model::Device* one : listed) {
    std::string& line = links.emplace_back();
    for (const model::Device* other : listed) {
      const std::uint32_t count = model::link_between(*one, *other).nvlinks;
      if (one != other) counts.insert(count);
      line += (line.empty() ? "" : ",") + (one == other ? "-1" : std::to_string(count));
    }
  }
  if (counts.size() < 2) return;
  for (std::size_t i = 0; i < links.size(); ++i) node.gpus[i].links = links[i];
}

/// Combines adjacent GPUs of one kind into one line.
std::vector<Gres> grouped(const std::vector<Gres>& gpus) {
  std::vector<Gres> groups;
  for (const Gres& one : gpus) {
    const bool joins = !groups.empty() && !one.is_slice && !groups.back().is_slice &&
                       groups.back().type == one.type && groups.back().cores == one.cores &&
                       groups.back().links == one.links &&
                       is_consecutive(groups.back().files.back(), one.files.front());
    if (joins)
      groups.back().files.push_back(one.files.front());
    else
      groups.push_back(one);
  }
  return groups;
}

}  // namespace

MigMinors read_mig_minors(const Roots& roots) {
  MigMinors minors;
  const auto text = slurp(roots.proc + "/driver/nvidia-caps/mig-minors", 1 << 20);
  if (!text) return minors;
  for (const std::string_view line : split(*text, '\n')) {
    const auto blank = line.find(' ');
    const auto minor = to_number(trim(line.substr(std::min(blank, line.size()))));
    const MigName name = mig_name(line.substr(0, blank));
    if (!minor || *minor < 0 || name.gpu < 0 || name.gpu_instance < 0) continue;
    const auto gpu = static_cast<unsigned>(name.gpu);
    const auto instance = static_cast<unsigned>(name.gpu_instance);
    const auto number = static_cast<unsigned>(*minor);
    if (name.compute_instance < 0)
      minors.gpu_instances[{gpu, instance}] = number;
    else
      minors.compute_instances[{gpu, {instance, static_cast<unsigned>(name.compute_instance)}}] =
          number;
  }
  return minors;
}

std::string slurm_type(const std::string& name) {
  std::string type;
  for (const std::string_view word : split(name, ' ')) {
    const std::string small = lower_case(word);
    if (type.empty() &&
        (small == "nvidia" || small == "geforce" || small == "tesla" || small == "quadro" ||
         small == "amd" || small == "intel" || small == "radeon" || small == "instinct"))
      continue;
    std::string plain;
    for (const char c : small)
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.') plain += c;
    if (!plain.empty()) type += (type.empty() ? "" : "_") + plain;
  }
  return type.empty() ? "gpu" : type;
}

GresNode gres_node(const model::Snapshot& snapshot, const std::optional<CpuTopology>& cpus,
                   const MigMinors& minors) {
  GresNode node;
  node.name = snapshot.host.hostname.substr(0, snapshot.host.hostname.find('.'));
  node.cpus = cpus;
  node.memory_bytes = snapshot.host.cpu.memory_total_bytes;
  std::vector<const model::Device*> devices;
  for (const model::Device& device : snapshot.devices)
    if (device.kind == model::DeviceKind::kGpu && device.managed) devices.push_back(&device);
  std::stable_sort(devices.begin(), devices.end(), [](const auto* a, const auto* b) {
    return std::pair(a->vendor, a->pci_address) < std::pair(b->vendor, b->pci_address);
  });
  for (const model::Device* device : devices) add_device(*device, node, minors, node);
  add_links(devices, node);
  return node;
}

std::vector<std::string> gres_lines(const GresNode& node, const GresOptions& options) {
  const std::string begin = options.node.empty() ? "" : "NodeName=" + options.node + " ";
  std::vector<std::string> lines;
  for (const Gres& one : grouped(node.gpus)) {
    std::string line =
        fmt::format("{}Name=gpu Type={} {}={}", begin, one.type,
                    one.is_slice ? "MultipleFiles" : "File", joined_files(one.files));
    if (!one.cores.empty()) line += " Cores=" + one.cores;
    if (!one.links.empty()) line += " Links=" + one.links;
    lines.push_back(std::move(line));
  }
  if (options.shards < 1) return lines;
  for (const Gres& one : node.gpus)
    if (!one.is_slice)
      lines.push_back(
          fmt::format("{}Name=shard Count={} File={}", begin, options.shards, one.files.front()));
  return lines;
}

std::string gres_value(const GresNode& node, int shards) {
  std::vector<std::pair<std::string, int>> types;
  int whole = 0;
  for (const Gres& one : node.gpus) {
    const auto at = std::find_if(types.begin(), types.end(),
                                 [&](const auto& type) { return type.first == one.type; });
    if (at == types.end())
      types.emplace_back(one.type, 1);
    else
      ++at->second;
    if (!one.is_slice) ++whole;
  }
  std::string value;
  for (const auto& [type, count] : types)
    value += fmt::format("{}gpu:{}:{}", value.empty() ? "" : ",", type, count);
  if (shards > 0 && whole > 0) value += fmt::format(",shard:{}", shards * whole);
  return value;
}

std::vector<std::string> slurm_lines(const GresNode& node, const GresOptions& options) {
  const std::string value = gres_value(node, options.shards);
  const bool has_shards = value.find("shard:") != std::string::npos;
  std::vector<std::string> lines{std::string("GresTypes=gpu") + (has_shards ? ",shard" : ""),
                                 "SelectType=select/cons_tres", "ProctrackType=proctrack/cgroup",
                                 "TaskPlugin=task/cgroup,task/affinity"};
  std::string line = "NodeName=" + (options.node.empty() ? node.name : options.node);
  if (node.cpus && node.cpus->sockets > 0 && node.cpus->cores > 0)
    line +=
        fmt::format(" CPUs={} Sockets={} CoresPerSocket={} ThreadsPerCore={}", node.cpus->threads,
                    node.cpus->sockets, node.cpus->cores / node.cpus->sockets,
                    node.cpus->threads / node.cpus->cores);
  if (node.memory_bytes > 0) line += fmt::format(" RealMemory={}", node.memory_bytes >> 20U);
  if (!value.empty()) line += " Gres=" + value;
  lines.push_back(std::move(line));
  return lines;
}

}  // namespace berth::engines
