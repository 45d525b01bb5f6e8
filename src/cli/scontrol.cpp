#include "cli/scontrol.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cctype>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "system/child_run.hpp"

namespace berth::cli {
namespace {

constexpr std::chrono::seconds kScontrol{8};

}  // namespace

bool is_node_name(const std::string& text) {
  return !text.empty() && text.size() < 256 && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

std::optional<std::string> said_by(std::vector<std::string> words) {
  const std::atomic<bool> never{false};
  const std::string program = words.front();
  auto result = system::run_child({program, std::move(words), "", kScontrol, 1 << 20}, never);
  const bool is_good = result.problem == 0 && result.is_over && WIFEXITED(result.status) &&
                       WEXITSTATUS(result.status) == 0;
  return is_good ? std::optional(std::move(result.output)) : std::nullopt;
}

Error no_scontrol(const std::string& node) {
  return {ErrorCode::kUnavailable, "E1013",
          text("Slurm gives no information about the node {}", printable(node)),
          "scontrol show node " + node};
}

Result<engines::NodeState> slurm_node_state(const std::string& node) {
  const auto shown = said_by({"scontrol", "show", "node", node, "--oneliner"});
  auto state = shown ? engines::node_state(*shown) : std::nullopt;
  if (!state) return no_scontrol(node);
  return *std::move(state);
}

Result<std::string> slurm_jobs_on(const std::string& node) {
  const auto said = said_by(
      {"squeue", "--noheader", "--nodelist=" + node, "--states=CF,R,CG,S,ST,SI,SO", "--format=%i"});
  if (!said) return no_scontrol(node);
  std::string jobs;
  for (const std::string_view line : split(*said, '\n'))
    if (!trim(line).empty()) jobs += (jobs.empty() ? "" : ", ") + printable(trim(line));
  return jobs;
}

}  // namespace berth::cli
