#include "engines/slurm_check.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "model/cpu_list.hpp"

namespace berth::engines {
namespace {

class Comparison {
 public:
  Comparison(const SlurmConfig& config, const SlurmMachine& machine, std::string name)
      : config_(config), machine_(machine), name_(std::move(name)), node_(config.node(name_)) {
    if (config.gres)
      for (const GresLine& line : *config.gres)
        if (is_ours(line)) lines_.push_back(&line);
  }

  std::vector<Difference> all() {
    if (node_ == nullptr) {
      add("node_missing", text("slurm.conf has no NodeName line for {}", printable(name_)),
          slurm_lines(machine_.node, {name_, 0}).back());
      return std::move(found_);
    }
    compare_gres_types();
    compare_counts();
    compare_detection();
    compare_files();
    compare_size();
    compare_constraint();
    return std::move(found_);
  }

 private:
  void add(const char* id, std::string what, std::string fix) {
    found_.push_back({id, std::move(what), std::move(fix)});
  }

  [[nodiscard]] bool is_ours(const GresLine& line) const {
    if (line.nodes.empty()) return true;
    const std::string own = node_ != nullptr ? node_->name : name_;
    return std::find(line.nodes.begin(), line.nodes.end(), own) != line.nodes.end();
  }

  /// Returns the resources that slurm.conf declares for the node: {"gpu:rtx_3090" → 4, "shard" →
  /// 16} for "gpu:rtx_3090:4(S:0),shard:16".
  [[nodiscard]] std::map<std::string, std::uint64_t> promised() const {
    std::map<std::string, std::uint64_t> counts;
    const auto at = node_->words.find("gres");
    if (at == node_->words.end()) return counts;
    for (std::string_view one : split(std::string_view(at->second), ',')) {
      one = one.substr(0, one.find('('));
      const auto colon = one.rfind(':');
      const auto number =
          colon == std::string_view::npos ? std::nullopt : to_number(one.substr(colon + 1));
      const std::string key = lower_case(number ? one.substr(0, colon) : one);
      counts[key] += static_cast<std::uint64_t>(std::max<std::int64_t>(number.value_or(1), 0));
    }
    return counts;
  }

  [[nodiscard]] std::string mode() const {
    std::string mode;
    for (const GresLine* line : lines_)
      if (!line->autodetect.empty() && (mode.empty() || !line->nodes.empty()))
        mode = line->autodetect;
    return mode == "off" ? "" : mode;
  }

  void compare_gres_types() {
    const auto types = split_types();
    const auto has = [&](const char* type) {
      return std::find(types.begin(), types.end(), type) != types.end();
    };
    const auto counts = promised();
    const bool wants_shard = counts.contains("shard");
    if (!machine_.node.gpus.empty() && !has("gpu"))
      add("gres_types", text("GresTypes of slurm.conf lacks gpu, so Slurm gives no GPUs to jobs"),
          std::string("GresTypes=gpu") + (wants_shard ? ",shard" : ""));
    else if (wants_shard && !has("shard"))
      add("gres_types", text("GresTypes of slurm.conf lacks shard, which the node has"),
          "GresTypes=gpu,shard");
    if (wants_shard && std::none_of(lines_.begin(), lines_.end(),
                                    [](const GresLine* line) { return line->name == "shard"; }))
      add("shards_missing", text("slurm.conf declares shards, but gres.conf has no line for them"),
          text("write one line for each GPU: {}", "Name=shard Count=4 File=/dev/nvidia0"));
  }

  [[nodiscard]] std::vector<std::string> split_types() const {
    std::vector<std::string> types;
    const std::string value = lower_case(config_.setting("grestypes"));
    for (const std::string_view one : split(std::string_view(value), ','))
      types.emplace_back(trim(one));
    return types;
  }

  void compare_counts() {
    std::uint64_t promised_gpus = 0;
    for (const auto& [key, count] : promised()) {
      if (key != "gpu" && !key.starts_with("gpu:")) continue;
      promised_gpus += count;
      if (key.size() > 4) compare_type(key.substr(4), count);
    }
    const std::size_t here = machine_.node.gpus.size();
    if (promised_gpus == here) return;
    const std::string fix = here == 0
                                ? text("remove Gres= from the NodeName line of {}", node_->name)
                                : text("write in the NodeName line of {}: {}", node_->name,
                                       "Gres=" + gres_value(machine_.node, 0));
    add("gres_count",
        promised_gpus > here ? text("slurm.conf lists {1} GPUs for {0}, but the machine has {2}: "
                                    "Slurm drains the node",
                                    node_->name, promised_gpus, here)
                             : text("slurm.conf lists {1} GPUs for {0}, but the machine has {2}: "
                                    "Slurm leaves some unused",
                                    node_->name, promised_gpus, here),
        fix);
  }

  void compare_type(const std::string& type, std::uint64_t count) {
    std::uint64_t here = 0;
    for (const Gres& one : machine_.node.gpus)
      if (one.type == type || one.type.find(type) != std::string::npos ||
          type.find(one.type) != std::string::npos)
        ++here;
    if (here > 0 || count == 0 || machine_.node.gpus.empty()) return;
    add("gres_type",
        text("slurm.conf gives the GPUs of node {} the type {}; no GPU here has that type",
             node_->name, printable(type)),
        text("write in the NodeName line of {}: {}", node_->name,
             "Gres=" + gres_value(machine_.node, 0)));
  }

  void compare_detection() {
    if (mode() != "nvml" || machine_.plugin_folder.empty() || machine_.has_nvml_plugin) return;
    add("autodetect",
        text("gres.conf has AutoDetect=nvml, but this Slurm was built without NVML ({} is missing)",
             machine_.plugin_folder + "/gpu_nvml.so"),
        text("replace AutoDetect by the lines that `berth slurm gres` prints"));
  }

  void compare_files() {
    const bool detects = !mode().empty();
    std::vector<std::string> listed;
    for (const GresLine* line : lines_) {
      if (line->name != "gpu") continue;
      for (const std::string& file : line->files) listed.push_back(file);
      if (!line->is_slice) compare_line(*line);
    }
    for (const std::string& file : listed)
      if (machine_.file_exists && !machine_.file_exists(file))
        add("file_missing",
            text("gres.conf names {}, which does not exist: slurmd does not start",
                 printable(file)),
            text("remove it from gres.conf, or see `berth doctor`"));
    if (detects && listed.empty()) return;
    std::vector<std::string> missing;
    for (const Gres& one : machine_.node.gpus)
      if (std::find(listed.begin(), listed.end(), one.files.front()) == listed.end() &&
          !one.is_slice)
        missing.push_back(one.files.front());
    for (const Gres& one : machine_.node.gpus)
      if (one.is_slice && std::find(listed.begin(), listed.end(), one.files.back()) == listed.end())
        missing.push_back(one.files.back());
    for (const std::string& file : missing)
      add("file_not_listed", text("gres.conf does not name {}", file), line_for(file));
  }

  [[nodiscard]] const Gres* gpu_with(const std::string& file) const {
    for (const Gres& one : machine_.node.gpus)
      if (std::find(one.files.begin(), one.files.end(), file) != one.files.end()) return &one;
    return nullptr;
  }

  [[nodiscard]] std::string line_for(const std::string& file) const {
    GresNode alone = machine_.node;
    std::erase_if(alone.gpus, [&](const Gres& one) {
      return std::find(one.files.begin(), one.files.end(), file) == one.files.end();
    });
    const auto lines = gres_lines(alone, {});
    return lines.empty() ? "" : lines.front();
  }

  void compare_line(const GresLine& line) {
    for (const std::string& file : line.files) {
      const Gres* gpu = gpu_with(file);
      if (gpu == nullptr) continue;
      if (!line.type.empty() && line.type != gpu->type &&
          gpu->type.find(line.type) == std::string::npos &&
          line.type.find(gpu->type) == std::string::npos)
        add("type_differs",
            text("gres.conf says that {} is of type {}, but its type is {}", file,
                 printable(line.type), gpu->type),
            line_for(file));
      compare_cores(line, *gpu, file);
      // A line of gres.conf for several GPUs gives the same Links= value to each of them.
      if (!gpu->links.empty() && line.links != gpu->links)
        add("links_differ",
            line.links.empty()
                ? text("gres.conf has no Links= for {}, but its GPU has NVLinks", file)
                : text("gres.conf gives {} Links={}; its NVLinks are {}", file,
                       printable(line.links), gpu->links),
            line_for(file));
    }
  }

  void compare_cores(const GresLine& line, const Gres& gpu, const std::string& file) {
    if (line.cores.empty() || gpu.cores.empty()) return;
    const auto given = model::parse_cpu_list(line.cores), near = model::parse_cpu_list(gpu.cores);
    if (!given || !near) return;
    if (model::intersection(*given, *near).size() == given->size()) return;
    add("cores_differ",
        text("gres.conf says that {} is near cores {}, but it is near cores {}", file,
             printable(line.cores), gpu.cores),
        line_for(file));
  }

  [[nodiscard]] std::optional<std::int64_t> number_of(std::string_view key) const {
    const auto at = node_->words.find(key);
    return at == node_->words.end() ? std::nullopt : to_number(at->second);
  }

  void compare_size() {
    const GresNode& here = machine_.node;
    if (lower_case(config_.setting("slurmdparameters")).find("config_overrides") !=
        std::string::npos)
      return;
    const auto memory = number_of("realmemory");
    const auto has = static_cast<std::int64_t>(here.memory_bytes >> 20U);
    if (memory && has > 0 && *memory > has)
      add("memory",
          text("RealMemory={} of {} is more than the machine has: Slurm drains the node", *memory,
               node_->name),
          fmt::format("RealMemory={}", has));
    const auto cpus = number_of("cpus");
    if (cpus && here.cpus && *cpus > here.cpus->threads)
      add("cpus",
          text("CPUs={} of {} is more than the machine has: Slurm drains the node", *cpus,
               node_->name),
          fmt::format("CPUs={}", here.cpus->threads));
  }

  void compare_constraint() {
    if (promised().empty()) return;
    const auto at =
        config_.cgroup ? config_.cgroup->find("constraindevices") : SlurmWords::const_iterator();
    const bool constrains =
        config_.cgroup && at != config_.cgroup->end() && lower_case(at->second) == "yes";
    if (!constrains)
      add("devices_open",
          text("jobs can open the GPUs of other jobs: only an environment variable separates them"),
          text("write in cgroup.conf: {}", "ConstrainDevices=yes"));
    if (lower_case(config_.setting("taskplugin")).find("task/cgroup") == std::string::npos)
      add("task_plugin",
          text("TaskPlugin of slurm.conf lacks task/cgroup, which applies cgroup.conf"),
          "TaskPlugin=task/cgroup,task/affinity");
  }

  const SlurmConfig& config_;
  const SlurmMachine& machine_;
  std::string name_;
  const SlurmNode* node_;
  std::vector<const GresLine*> lines_;
  std::vector<Difference> found_;
};

}  // namespace

std::vector<Difference> differences(const SlurmConfig& config, const SlurmMachine& machine,
                                    const std::string& name) {
  return Comparison(config, machine, name).all();
}

}  // namespace berth::engines
