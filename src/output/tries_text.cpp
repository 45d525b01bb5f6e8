#include "output/tries_text.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>

#include "base/json.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/translated.hpp"
#include "base/units.hpp"
#include "model/cpu_list.hpp"
#include "output/terminal.hpp"
#include "output/words.hpp"

namespace berth::output {
namespace {

using Json = nlohmann::ordered_json;
using model::RankEnd;
using model::RankPart;

template <typename T>
Json value_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

double seconds(std::chrono::milliseconds duration) {
  return static_cast<double>(duration.count()) / 1000.0;
}

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? std::to_string(number) : std::string("SIG") + name;
}

std::string how(const RankEnd& end) {
  return end.signal ? text("killed by {}", signal_name(*end.signal))
                    : text("with exit code {}", end.exit_code.value_or(0));
}

std::vector<std::string> lines_of(const RankEnd& end) {
  std::vector<std::string> lines;
  if (end.traceback.empty()) return end.last_lines;
  for (const std::string_view line : split(end.traceback, '\n')) lines.emplace_back(line);
  return lines;
}

std::vector<int> with_part(const model::Try& one, RankPart part) {
  std::vector<int> ranks;
  for (const RankEnd& end : one.ranks)
    if (end.part == part) ranks.push_back(end.rank);
  return ranks;
}

/// How a rank ended, in words. `was_hung`: Berth ended it because it made no progress.
std::string end_words(const RankEnd& end, bool was_hung) {
  if (was_hung) return text("hung");
  switch (end.part) {
    case RankPart::kOk:
      return text("ok");
    case RankPart::kFailedFirst:
      return end.signal ? text("{} (failed first)", signal_name(*end.signal))
                        : text("exit code {} (failed first)", end.exit_code.value_or(0));
    case RankPart::kVictim:
      return text("victim");
    case RankPart::kStopped:
      return text("stopped");
    case RankPart::kUnkillable:
      return text("unkillable");
    case RankPart::kLeftEarly:
      return text("left early");
  }
  return {};
}

/// Whether this rank hung until Berth ended the job: the others waited for it, or all waited for
/// each other.
bool was_hung(const model::Try& one, const RankEnd& end) {
  if (!model::was_ended_for_hang(one) || one.hangs.empty()) return false;
  if (end.part != RankPart::kFailedFirst && end.part != RankPart::kVictim) return false;
  const std::vector<int>& odd = one.hangs.back().odd_ranks;
  return odd.empty() || std::find(odd.begin(), odd.end(), end.rank) != odd.end();
}

std::vector<std::string> cells_of(const RankEnd& end, bool has_devices, bool was_hung) {
  std::vector<std::string> cells{std::to_string(end.rank)};
  if (has_devices) cells.push_back(model::show_cpu_list(end.devices));
  cells.push_back(end_words(end, was_hung));
  cells.push_back(show_duration(end.wall));
  cells.push_back(show_duration(end.cpu));
  cells.push_back(end.peak_rss_bytes == 0 ? "-" : show_bytes(end.peak_rss_bytes));
  return cells;
}

/// The first `most` ranks, among them always the rank that failed first.
std::vector<RankEnd> shown_ranks(const model::Try& one, std::size_t most) {
  std::vector<RankEnd> shown(
      one.ranks.begin(),
      one.ranks.begin() + static_cast<std::ptrdiff_t>(std::min(most, one.ranks.size())));
  const RankEnd* const first = model::first_failed(one);
  const auto is_first = [&](const RankEnd& end) { return first && end.rank == first->rank; };
  if (first && std::none_of(shown.begin(), shown.end(), is_first)) shown.back() = *first;
  return shown;
}

std::vector<std::string> aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<int> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], display_width(row[i]));
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::string& line = lines.emplace_back();
    for (std::size_t i = 0; i + 1 < row.size(); ++i) line += pad(row[i], widths[i]) + "  ";
    line += row.back();
  }
  return lines;
}

Json rank_json(const RankEnd& end) {
  Json lines = Json::array();
  for (const std::string& line : end.last_lines) lines.push_back(printable(line));
  return {{"rank", end.rank},
          {"pid", end.pid > 0 ? Json(end.pid) : Json(nullptr)},
          {"part", model::name(end.part)},
          {"exit_code", value_or_null(end.exit_code)},
          {"signal", value_or_null(end.signal)},
          {"wall_seconds", seconds(end.wall)},
          {"cpu_seconds", seconds(end.cpu)},
          {"peak_rss_bytes", end.peak_rss_bytes == 0 ? Json(nullptr) : Json(end.peak_rss_bytes)},
          {"devices", end.devices},
          {"cpus", text_or_null(end.cpus)},
          {"threads", end.threads},
          {"last_lines", std::move(lines)},
          {"traceback", text_or_null(end.traceback)},
          {"log", text_or_null(end.log)},
          {"log_left_out_bytes", end.log.empty() ? Json(nullptr) : Json(end.log_left_out_bytes)}};
}

std::string printable_lines(const std::string& lines) {
  std::string out;
  for (const std::string_view one : split(lines, '\n'))
    out += (out.empty() ? "" : "\n") + printable(one);
  return out;
}

Json collective_json(const std::optional<model::Collective>& one) {
  if (!one) return nullptr;
  return {{"name", one->name},
          {"group", text_or_null(one->group)},
          {"number", one->number < 0 ? Json(nullptr) : Json(one->number)},
          {"state", text_or_null(one->state)}};
}

Json hang_json(const model::HangSeen& hang) {
  Json ranks = Json::array();
  for (const auto& one : hang.ranks)
    ranks.push_back({{"rank", one.rank},
                     {"ended", one.has_ended},
                     {"where", text_or_null(printable(one.where))},
                     {"waits_in", text_or_null(one.waits_in)},
                     {"native", text_or_null(printable_lines(one.native))},
                     {"stack", text_or_null(one.stack)},
                     {"collective", collective_json(one.collective)}});
  return {{"after_seconds", seconds(hang.after)},
          {"silent_seconds", seconds(hang.silent)},
          {"slow", hang.is_slow},
          {"connecting", hang.is_connecting},
          {"odd_ranks", hang.odd_ranks},
          {"sentence", model::hang_sentence(hang)},
          {"ranks", std::move(ranks)}};
}

Json nccl_json(const std::optional<model::NcclSeen>& nccl) {
  if (!nccl) return nullptr;
  Json links = Json::array();
  for (const model::NcclLink& one : nccl->links)
    links.push_back({{"from", one.from},
                     {"to", one.to},
                     {"transport", one.transport},
                     {"channels", one.channels}});
  return {{"version", text_or_null(nccl->version)},
          {"network", text_or_null(nccl->network)},
          {"communicators", nccl->communicators},
          {"links", std::move(links)},
          {"warnings", nccl->warnings},
          {"more_warnings", nccl->more_warnings}};
}

/// A sentence about the ranks that made no progress, and the ranks that Berth ended with them.
std::string hung_ranks(const model::Try& one) {
  std::vector<int> hung, victims;
  for (const RankEnd& end : one.ranks)
    if (was_hung(one, end))
      hung.push_back(end.rank);
    else if (end.part == RankPart::kVictim)
      victims.push_back(end.rank);
  if (hung.empty()) return "";
  return text_n("; rank {} hung", "; ranks {} hung", static_cast<long long>(hung.size()),
                model::show_cpu_list(hung)) +
         (victims.empty()
              ? ""
              : text_n("; rank {} failed as a result", "; ranks {} failed as a result",
                       static_cast<long long>(victims.size()), model::show_cpu_list(victims)));
}

}  // namespace

std::string class_words(model::TryClass one) {
  switch (one) {
    case model::TryClass::kOk:
      return text("ok");
    case model::TryClass::kUserError:
      return text("a program error");
    case model::TryClass::kOutOfMemory:
      return text("out of memory");
    case model::TryClass::kDeviceFault:
      return text("a device fault");
    case model::TryClass::kKilled:
      return text("killed");
    case model::TryClass::kHang:
      return text("a hang");
    case model::TryClass::kStopped:
      return text("stopped");
    case model::TryClass::kPreempted:
      return text("preempted by another job");
    case model::TryClass::kNodeShutdown:
      return text("ended by the shutdown of the machine");
  }
  return {};
}

std::vector<std::string> failure_sentences(const model::Tries& tries) {
  if (!tries.has_ranks || tries.all.empty()) return {};
  const model::Try& last = tries.all.back();
  std::vector<std::string> out;
  for (const model::HangSeen& hang : last.hangs) {
    out.push_back(text("after {}: {}", show_duration(hang.after), model::hang_sentence(hang)));
    if (const auto collectives = model::collectives_sentence(hang); !collectives.empty())
      out.push_back(collectives);
  }
  if (model::was_ended_for_hang(last)) {
    out.push_back(translated(last.evidence) + hung_ranks(last));
  } else if (const RankEnd* first = model::first_failed(last)) {
    const std::vector<int> victims = with_part(last, RankPart::kVictim);
    out.push_back(
        text("rank {} failed first, {}, after {}", first->rank, how(*first),
             show_duration(first->wall)) +
        (victims.empty()
             ? ""
             : text_n("; rank {} failed as a result", "; ranks {} failed as a result",
                      static_cast<long long>(victims.size()), model::show_cpu_list(victims))));
    if (const auto lines = lines_of(*first); !lines.empty())
      out.push_back(text("rank {}: {}", first->rank, printable(lines.back())));
    if (!last.left_early.empty())
      out.push_back(text_n("rank {} had ended with exit code 0 while others still needed it",
                           "ranks {} had ended with exit code 0 while others still needed them",
                           static_cast<long long>(last.left_early.size()),
                           model::show_cpu_list(last.left_early)));
  }
  if (!last.left_early.empty() && model::first_failed(last) == nullptr)
    out.push_back(text_n("rank {} exited with code 0 while the other ranks waited for it",
                         "ranks {} exited with code 0 while the other ranks waited for them",
                         static_cast<long long>(last.left_early.size()),
                         model::show_cpu_list(last.left_early)));
  for (const RankEnd& end : last.ranks)
    if (end.part == RankPart::kUnkillable)
      out.push_back(
          text("rank {} (pid {}) could not be killed: it waits in the kernel", end.rank, end.pid));
  return out;
}

std::vector<std::string> failure_lines(const model::Tries& tries, std::size_t most) {
  const RankEnd* first = tries.all.empty() ? nullptr : model::first_failed(tries.all.back());
  if (first == nullptr) return {};
  std::vector<std::string> lines = lines_of(*first);
  if (lines.size() > most)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(most));
  for (std::string& line : lines) line = printable(line);
  return lines;
}

std::vector<std::string> rank_table(const model::Tries& tries, std::size_t most) {
  if (!tries.has_ranks || tries.all.empty() || tries.all.back().ranks.size() < 2) return {};
  const model::Try& last = tries.all.back();
  const bool has_devices = !last.ranks.front().devices.empty();
  std::vector<std::string> head{text("rank")};
  if (has_devices) head.push_back(text("GPU"));
  head.insert(head.end(), {text("end"), text("time"), text("CPU time"), text("memory")});
  std::vector<std::vector<std::string>> rows{std::move(head)};
  const auto shown = shown_ranks(last, most);
  for (const RankEnd& end : shown) rows.push_back(cells_of(end, has_devices, was_hung(last, end)));
  std::vector<std::string> lines = aligned(rows);
  if (const auto more = static_cast<long long>(last.ranks.size() - shown.size()); more > 0)
    lines.push_back(
        text_n("{} more rank: see {}", "{} more ranks: see {}", more, more, "--report FILE"));
  return lines;
}

std::vector<std::string> nccl_sentences(const model::Tries& tries) {
  if (tries.all.empty() || !tries.all.back().nccl) return {};
  const model::NcclSeen& nccl = *tries.all.back().nccl;
  constexpr std::size_t kMostPairs = 4;
  // for each transport, the pairs of ranks that use it
  std::map<std::string, std::vector<std::string>> by;
  bool has_network = false;
  for (const model::NcclLink& one : nccl.links) {
    by[one.transport].push_back(fmt::format("{}>{}", one.from, one.to));
    has_network = has_network || one.transport.starts_with("NET/");
  }
  std::vector<std::string> parts;
  for (const auto& [transport, pairs] : by) {
    parts.push_back(text_n("{} pair of ranks connected by {}", "{} pairs of ranks connected by {}",
                           static_cast<long long>(pairs.size()), pairs.size(), transport));
    if (by.size() > 1 && pairs.size() <= kMostPairs) parts.back() += ": " + join(pairs, ", ");
  }
  std::vector<std::string> out;
  const std::string name = nccl.version.empty() ? "NCCL" : "NCCL " + nccl.version;
  out.push_back(name + ": " +
                (parts.empty() ? text("no connections between ranks") : join(parts, "; ")));
  const bool is_one_node =
      static_cast<int>(tries.all.back().ranks.size()) == tries.all.back().world_size;
  if (has_network && is_one_node)
    out.push_back(text("ranks of this machine communicate over the network: check {}, {} and {}",
                       "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "df -h /dev/shm"));
  for (const std::string& one : nccl.warnings) out.push_back(text("NCCL warned: {}", one));
  if (nccl.more_warnings > 0)
    out.push_back(text_n("{} more warning from NCCL", "{} more warnings from NCCL",
                         nccl.more_warnings, nccl.more_warnings));
  return out;
}

std::string log_sentence(const model::Tries& tries) {
  if (tries.all.empty()) return "";
  std::vector<int> ranks;
  std::uint64_t bytes = 0;
  for (const RankEnd& end : tries.all.back().ranks) {
    if (end.log_left_out_bytes == 0) continue;
    ranks.push_back(end.rank);
    bytes += end.log_left_out_bytes;
  }
  if (ranks.empty()) return "";
  return text_n("the log of rank {} leaves out {} in its middle (--log-limit)",
                "the logs of ranks {} leave out {} in their middle (--log-limit)",
                static_cast<long long>(ranks.size()), model::show_cpu_list(ranks),
                show_bytes(bytes));
}

std::string ranks_json(const model::Tries* tries) {
  if (tries == nullptr || !tries->has_ranks) return "null";
  Json out = Json::array();
  if (!tries->all.empty())
    for (const RankEnd& end : tries->all.back().ranks) out.push_back(rank_json(end));
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string tries_json(const model::Tries* tries) {
  if (tries == nullptr) return "null";
  Json out = Json::array();
  for (const model::Try& one : tries->all) {
    const RankEnd* first = tries->has_ranks ? model::first_failed(one) : nullptr;
    Json hangs = Json::array();
    for (const model::HangSeen& hang : one.hangs) hangs.push_back(hang_json(hang));
    out.push_back({{"number", one.number},
                   {"class", model::name(one.kind)},
                   {"evidence", text_or_null(printable(one.evidence))},
                   {"exit_code", value_or_null(one.exit_code)},
                   {"signal", value_or_null(one.signal)},
                   {"failed_first", first == nullptr ? Json(nullptr) : Json(first->rank)},
                   {"wall_seconds", seconds(one.wall)},
                   {"waited_seconds", seconds(one.waited)},
                   {"change", text_or_null(std::string(model::name(one.change)))},
                   {"batch_scale", one.batch_scale},
                   {"world_size", one.world_size},
                   {"lost_devices", one.lost_devices},
                   {"left_early", one.left_early},
                   {"nccl", nccl_json(one.nccl)},
                   {"hangs", std::move(hangs)}});
  }
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace {

std::string change_words(const model::Try& one) {
  switch (one.change) {
    case model::TryChange::kNothing:
      return {};
    case model::TryChange::kOtherDevice:
      return text("try {} on another GPU", one.number);
    case model::TryChange::kWaitedForMemory:
      return text("try {} after other programs had released memory", one.number);
    case model::TryChange::kSmallerBatch:
      return text("try {} with {}", one.number,
                  fmt::format("BERTH_BATCH_SCALE={}", one.batch_scale));
  }
  return {};
}

}  // namespace

std::string tries_sentence(const model::Tries& tries) {
  const auto count = static_cast<long long>(tries.all.size());
  if (count < 2) return {};
  std::vector<std::string> classes, changes;
  for (const model::Try& one : tries.all) {
    classes.push_back(class_words(one.kind));
    if (auto words = change_words(one); !words.empty()) changes.push_back(std::move(words));
  }
  const model::Try& last = tries.all.back();
  if (last.lost_devices.empty()) {
    std::string sentence = text("{} tries: {}", count, join(classes, ", "));
    return changes.empty() ? sentence : sentence + "; " + join(changes, ", ");
  }
  return text_n("{1} tries: {2}; the last with {0} rank, without GPU {3}",
                "{1} tries: {2}; the last with {0} ranks, without GPU {3}", last.world_size,
                last.world_size, count, join(classes, ", "),
                model::show_cpu_list(last.lost_devices));
}

}  // namespace berth::output
