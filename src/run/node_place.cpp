#include "run/node_place.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "base/text_parts.hpp"

namespace berth::run {
namespace {

using Variables = std::map<std::string, std::string>;

constexpr int kMostNodes = 4096;
constexpr std::uint16_t kTorchrunsPort = 29500;

std::string value_of(const Variables& variables, const char* name) {
  const auto at = variables.find(name);
  return at == variables.end() ? "" : at->second;
}

std::optional<int> number_of(const Variables& variables, const char* name, int most) {
  const auto number = to_number(value_of(variables, name));
  return number && *number >= 0 && *number <= most ? std::optional(static_cast<int>(*number))
                                                   : std::nullopt;
}

std::uint16_t port_or(const Variables& variables, const char* name, std::uint16_t other) {
  const auto port = number_of(variables, name, 65'535);
  return port && *port > 0 ? static_cast<std::uint16_t>(*port) : other;
}

Error not_known(const std::string& what) {
  return {ErrorCode::kInvalidArgument, "E0534",
          text("--nodes: {} is not set, or its value is invalid", what),
          "NODE_RANK=1 MASTER_ADDR=node0 MASTER_PORT=29500 berth run --nodes 2 --ranks gpu -- "
          "python train.py\nsrun --nodes 2 berth run --ranks gpu -- python train.py"};
}

/// All nodes must choose the same port without talking to each other. It is below the range from
/// which Linux assigns ports.
std::uint16_t port_of_job(const Variables& variables) {
  const auto job = to_number(value_of(variables, "SLURM_JOB_ID")).value_or(0);
  const auto step = to_number(value_of(variables, "SLURM_STEP_ID")).value_or(0);
  constexpr std::int64_t kPlaces = 1'000, kApart = 16;
  const std::int64_t place =
      (std::max<std::int64_t>(job, 0) % kPlaces * 31 + std::max<std::int64_t>(step, 0) % kPlaces) %
      kPlaces;
  return static_cast<std::uint16_t>(12'000 + place * kApart);
}

/// The number of Slurm tasks; nullopt outside of srun, because the batch script itself is always
/// the only task.
std::optional<int> tasks_of_slurm(const Variables& variables) {
  if (value_of(variables, "SLURM_STEP_ID").empty()) return std::nullopt;
  for (const char* name : {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"})
    if (const auto tasks = number_of(variables, name, kMostNodes)) return tasks;
  return std::nullopt;
}

Result<NodePlace> in_slurm(const Variables& variables, int tasks) {
  NodePlace place;
  place.count = tasks;
  const auto rank = number_of(variables, "SLURM_PROCID", tasks - 1);
  if (!rank) return not_known("SLURM_PROCID");
  place.rank = *rank;
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    const auto peers = expand_host_list(value_of(variables, name));
    if (!peers || peers->empty()) continue;
    place.address = peers->front();
    // If a node has several tasks, the list does not say which task runs on which node.
    if (peers->size() == static_cast<std::size_t>(tasks)) place.peers = *peers;
    break;
  }
  if (place.address.empty()) return not_known("SLURM_STEP_NODELIST");
  place.port = port_or(variables, "MASTER_PORT", port_of_job(variables));
  return place;
}

/// The domain that /etc/hosts gives this pod: ".train.default.svc.cluster.local". "" if there is no
/// headless service; then pods cannot find each other.
std::string domain_of(std::string_view hosts, const std::string& host) {
  for (const std::string_view line : split(hosts, '\n'))
    for (std::string_view word : split(line, '\t'))
      for (const std::string_view name : split(word, ' '))
        if (name.starts_with(host + ".")) return std::string(name.substr(host.size()));
  return {};
}

Result<NodePlace> in_kubernetes(const Variables& variables, int nodes, std::string_view hosts) {
  NodePlace place;
  place.count = nodes;
  const auto rank = number_of(variables, "JOB_COMPLETION_INDEX", nodes - 1);
  if (!rank) return not_known("JOB_COMPLETION_INDEX");
  place.rank = *rank;
  place.port = port_or(variables, "MASTER_PORT", kTorchrunsPort);
  place.address = value_of(variables, "MASTER_ADDR");
  const std::string host = value_of(variables, "HOSTNAME");
  const std::string end = "-" + std::to_string(*rank);
  const std::string domain = domain_of(hosts, host);
  if (host.ends_with(end) && !domain.empty())
    for (int i = 0; i < nodes; ++i)
      place.peers.push_back(host.substr(0, host.size() - end.size()) + "-" + std::to_string(i) +
                            domain);
  if (place.address.empty() && !place.peers.empty()) place.address = place.peers.front();
  if (place.address.empty())
    return Error{ErrorCode::kInvalidArgument, "E0534",
                 text("--nodes: the pods of this job have no host names to reach each other"),
                 text("give the Job a headless Service: set spec.template.spec.subdomain to its "
                      "name; or set MASTER_ADDR")};
  return place;
}

Result<NodePlace> by_names(const Variables& variables, int nodes, const char* rank_name,
                           const char* address_name, const char* port_name) {
  NodePlace place;
  place.count = nodes;
  const auto rank = number_of(variables, rank_name, nodes - 1);
  if (!rank) return not_known(rank_name);
  place.rank = *rank;
  place.address = value_of(variables, address_name);
  if (place.address.empty()) return not_known(address_name);
  place.port = port_or(variables, port_name, kTorchrunsPort);
  return place;
}

/// "08" → {8, 2}, its value and its number of digits; nullopt if it is not a number.
std::optional<std::pair<int, std::size_t>> digits(std::string_view word) {
  constexpr std::size_t kMostDigits = 9;
  if (word.empty() || word.size() > kMostDigits ||
      word.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  int number = 0;
  for (const char c : word) number = number * 10 + (c - '0');
  return std::pair(number, word.size());
}

bool add_range(std::string_view range, const std::string& before, const std::string& after,
               std::vector<std::string>& names) {
  const auto dash = range.find('-');
  const auto least = digits(range.substr(0, dash));
  const auto most = dash == std::string_view::npos ? least : digits(range.substr(dash + 1));
  if (!least || !most || most->first < least->first || most->first - least->first >= kMostNodes)
    return false;
  for (int i = least->first; i <= most->first; ++i) {
    std::string number = std::to_string(i);
    if (number.size() < least->second) number.insert(0, least->second - number.size(), '0');
    names.push_back(before + number + after);
  }
  return names.size() <= kMostNodes;
}

/// Adds the names of one element of the list: a plain name, or a name with one pair of brackets
/// such as "n[1-3]x".
bool add_element(std::string_view element, std::vector<std::string>& names) {
  const auto open = element.find('[');
  if (open == std::string_view::npos) {
    names.emplace_back(element);
    return !element.empty() && element.find(']') == std::string_view::npos &&
           names.size() <= kMostNodes;
  }
  const auto close = element.find(']', open);
  if (close == std::string_view::npos ||
      element.find_first_of("[]", close + 1) != std::string_view::npos)
    return false;
  for (const std::string_view range : split(element.substr(open + 1, close - open - 1), ','))
    if (!add_range(range, std::string(element.substr(0, open)),
                   std::string(element.substr(close + 1)), names))
      return false;
  return true;
}

}  // namespace

std::optional<std::vector<std::string>> expand_host_list(std::string_view list) {
  std::vector<std::string> names;
  std::size_t begin = 0;
  bool is_inside = false;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') is_inside = true;
    if (i < list.size() && list[i] == ']') is_inside = false;
    if (i < list.size() && (list[i] != ',' || is_inside)) continue;
    if (!add_element(list.substr(begin, i - begin), names)) return std::nullopt;
    begin = i + 1;
  }
  return is_inside ? std::nullopt : std::optional(std::move(names));
}

Result<NodePlace> node_place(const Variables& variables, std::optional<int> nodes,
                             std::string_view hosts) {
  const auto tasks = tasks_of_slurm(variables);
  if (nodes == 1 || (!nodes && tasks.value_or(1) < 2 && !variables.contains("PET_NNODES")))
    return NodePlace();
  if (tasks.value_or(1) >= 2) {
    if (nodes && *nodes != *tasks)
      return Error{ErrorCode::kInvalidArgument, "E0535",
                   text_n("--nodes {}, but Slurm has started {} task",
                          "--nodes {}, but Slurm has started {} tasks", *tasks, *nodes, *tasks),
                   fmt::format("srun --nodes {0} --ntasks-per-node 1 berth run --nodes {0} --ranks "
                               "gpu -- python train.py",
                               *nodes)};
    return in_slurm(variables, *tasks);
  }
  const auto pet = number_of(variables, "PET_NNODES", kMostNodes);
  if (!nodes && !pet) return not_known("PET_NNODES");
  if (!nodes && *pet < 2) return NodePlace();
  const int count = nodes ? *nodes : *pet;
  if (variables.contains("PET_NODE_RANK"))
    return by_names(variables, count, "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT");
  if (variables.contains("JOB_COMPLETION_INDEX")) return in_kubernetes(variables, count, hosts);
  return by_names(variables, count, "NODE_RANK", "MASTER_ADDR", "MASTER_PORT");
}

}  // namespace berth::run
