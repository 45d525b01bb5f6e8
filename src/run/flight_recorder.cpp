#include "run/flight_recorder.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/pickle.hpp"
#include "base/text.hpp"

namespace berth::run {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMostDumpBytes = 64 << 20;
constexpr std::size_t kLongestName = 60;

std::string text_of(const Pickle::Value* node) {
  if (node == nullptr || node->kind != Pickle::Kind::kText) return {};
  return printable(std::string_view(node->text).substr(0, kLongestName));
}

/// "nccl:all_reduce" becomes "all_reduce".
std::string short_name(const std::string& name) {
  return name.starts_with("nccl:") ? name.substr(5) : name;
}

std::int64_t number_of(const Pickle::Value* node) {
  return node != nullptr && node->kind == Pickle::Kind::kNumber ? node->number : -1;
}

std::string dump_path(const std::string& stem, int rank) {
  return stem + std::to_string(rank);
}

std::string pipe_path(const std::string& stem, int rank) {
  return dump_path(stem, rank) + ".pipe";
}

/// Asks a rank for its dump by a byte in its pipe. False: the rank has no pipe, or no process reads
/// it.
bool ask(const std::string& path) {
  struct stat about = {};
  const Descriptor pipe(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  return pipe && ::fstat(pipe.get(), &about) == 0 && S_ISFIFO(about.st_mode) &&
         ::write(pipe.get(), "1", 1) == 1;
}

}  // namespace

std::optional<model::Collective> last_collective(std::string_view dump) {
  using Kind = Pickle::Kind;
  const auto pickle = Pickle::read_plain(dump);
  if (!pickle) return std::nullopt;
  const Pickle::Value* const entries = pickle->find(pickle->root(), "entries");
  if (entries == nullptr || entries->kind != Kind::kList) return std::nullopt;
  // entries are sorted by start time, so the first incomplete one is the oldest
  const Pickle::Value* found = nullptr;
  for (const std::uint32_t index : entries->items) {
    const Pickle::Value& entry = pickle->at(index);
    if (entry.kind != Kind::kDict) continue;
    found = &entry;
    if (text_of(pickle->find(entry, "state")) != "completed") break;
  }
  if (found == nullptr) return std::nullopt;
  model::Collective collective;
  collective.name = short_name(text_of(pickle->find(*found, "profiling_name")));
  collective.state = text_of(pickle->find(*found, "state"));
  const Pickle::Value* const is_p2p = pickle->find(*found, "is_p2p");
  const bool counts_p2p = is_p2p != nullptr && is_p2p->kind == Kind::kBool && is_p2p->number != 0;
  collective.number =
      number_of(pickle->find(*found, counts_p2p ? "p2p_seq_id" : "collective_seq_id"));
  if (collective.number < 0) collective.number = number_of(pickle->find(*found, "seq_id"));
  const Pickle::Value* const group = pickle->find(*found, "process_group");
  if (group != nullptr && group->kind == Kind::kList && !group->items.empty())
    collective.group = text_of(&pickle->at(group->items.back()));
  if (collective.name.empty()) return std::nullopt;
  return collective;
}

std::map<std::string, std::string> flight_variables(const std::string& stem) {
  // PyTorch has renamed some of these variables. Older versions read only the old name and ignore
  // the new one.
  return {{"TORCH_FR_BUFFER_SIZE", "2000"},          {"TORCH_NCCL_TRACE_BUFFER_SIZE", "2000"},
          {"TORCH_NCCL_DUMP_ON_TIMEOUT", "1"},       {"TORCH_FR_DUMP_TEMP_FILE", stem},
          {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", stem}, {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE", stem}};
}

std::vector<int> request_dumps(const std::string& stem, const std::vector<int>& ranks) {
  std::vector<int> asked;
  for (const int rank : ranks) {
    ::unlink(dump_path(stem, rank).c_str());
    if (ask(pipe_path(stem, rank))) asked.push_back(rank);
  }
  return asked;
}

std::map<int, model::Collective> read_dumps(const std::string& stem,
                                            const std::vector<int>& ranks) {
  std::map<int, model::Collective> found;
  for (const int rank : ranks) {
    const auto dump = slurp_regular(dump_path(stem, rank), kMostDumpBytes);
    if (!dump || !dump->ends_with('.')) continue;  // a complete pickle ends with '.'
    if (auto collective = last_collective(*dump)) found[rank] = *std::move(collective);
  }
  return found;
}

std::map<int, model::Collective> ask_for_collectives(const std::string& stem,
                                                     const std::vector<int>& ranks,
                                                     milliseconds patience) {
  std::vector<int> asked = request_dumps(stem, ranks);
  std::map<int, model::Collective> found;
  const auto until = Clock::now() + patience;
  while (!asked.empty()) {
    found.merge(read_dumps(stem, asked));
    std::erase_if(asked, [&](int rank) { return found.contains(rank); });
    if (asked.empty() || Clock::now() >= until) break;
    ::poll(nullptr, 0, 50);
  }
  return found;
}

void remove_flight_files(const std::string& stem, const std::vector<int>& ranks, bool keeps_dumps) {
  for (const int rank : ranks) {
    if (!keeps_dumps) ::unlink(dump_path(stem, rank).c_str());
    ::unlink(pipe_path(stem, rank).c_str());
  }
}

}  // namespace berth::run
