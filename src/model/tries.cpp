#include "model/tries.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "model/cpu_list.hpp"

namespace berth::model {

std::string_view name(TryClass one) {
  switch (one) {
    case TryClass::kOk:
      return "ok";
    case TryClass::kUserError:
      return "user error";
    case TryClass::kOutOfMemory:
      return "out of memory";
    case TryClass::kDeviceFault:
      return "device fault";
    case TryClass::kKilled:
      return "killed";
    case TryClass::kHang:
      return "hang";
    case TryClass::kStopped:
      return "stopped";
    case TryClass::kPreempted:
      return "preempted";
    case TryClass::kNodeShutdown:
      return "node shutdown";
  }
  return "user error";
}

std::optional<TryClass> try_class(std::string_view name) {
  for (int kind = 0; kind <= static_cast<int>(TryClass::kNodeShutdown); ++kind)
    if (model::name(static_cast<TryClass>(kind)) == name) return static_cast<TryClass>(kind);
  return std::nullopt;
}

std::string_view name(TryChange one) {
  switch (one) {
    case TryChange::kNothing:
      return "";
    case TryChange::kOtherDevice:
      return "other device";
    case TryChange::kWaitedForMemory:
      return "waited for memory";
    case TryChange::kSmallerBatch:
      return "smaller batch";
  }
  return "";
}

std::string_view name(RankPart part) {
  switch (part) {
    case RankPart::kOk:
      return "ok";
    case RankPart::kFailedFirst:
      return "failed first";
    case RankPart::kVictim:
      return "victim";
    case RankPart::kStopped:
      return "stopped";
    case RankPart::kUnkillable:
      return "unkillable";
    case RankPart::kLeftEarly:
      return "left early";
  }
  return "ok";
}

namespace {

/// A sentence about what a rank does whose state differs from the others.
std::string words_of(const HangSeen::Rank& one, const HangSeen& hang) {
  const std::string where = printable(one.where);
  if (!hang.is_connecting)
    return one.has_ended   ? text("rank {} has ended with exit code 0", one.rank)
           : where.empty() ? text("the position of rank {} is unknown", one.rank)
           : hang.is_slow  ? text("rank {} is busy at {}", one.rank, where)
                           : text("rank {} is at {}", one.rank, where);
  return one.has_ended   ? text("rank {} has ended with exit code 0 and never connected", one.rank)
         : where.empty() ? text("rank {} has not connected", one.rank)
         : hang.is_slow  ? text("rank {} has not connected and is busy at {}", one.rank, where)
                         : text("rank {} has not connected and is at {}", one.rank, where);
}

}  // namespace

std::string hang_sentence(const HangSeen& hang) {
  const std::string silent = show_duration(hang.silent);
  if (hang.odd_ranks.empty() && hang.is_connecting)
    return text("no rank has made progress for {}: all wait for ranks to connect", silent);
  if (hang.odd_ranks.empty())
    return text("no rank has made progress for {}: all wait for each other", silent);
  std::string odd;
  for (const HangSeen::Rank& one : hang.ranks) {
    if (std::find(hang.odd_ranks.begin(), hang.odd_ranks.end(), one.rank) == hang.odd_ranks.end())
      continue;
    odd += odd.empty() ? "" : ", ";
    odd += words_of(one, hang);
  }
  if (hang.is_slow) return text("the other ranks have waited for {}: {}", silent, odd);
  return text("no rank has made progress for {}: {}; the other ranks wait", silent, odd);
}

std::string collectives_sentence(const HangSeen& hang) {
  // for each text, the ranks that it applies to
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (const HangSeen::Rank& one : hang.ranks) {
    if (!one.collective) continue;
    std::string what = one.collective->name;
    if (one.collective->number >= 0) what += " " + std::to_string(one.collective->number);
    if (!one.collective->group.empty()) what += " (" + one.collective->group + ")";
    if (!one.collective->state.empty()) what += ", " + one.collective->state;
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const auto& group) { return group.first == what; });
    if (same == groups.end())
      groups.push_back({what, {one.rank}});
    else
      same->second.push_back(one.rank);
  }
  std::string all;
  for (const auto& [what, ranks] : groups)
    all += (all.empty() ? "" : "; ") + text_n("rank {}: {}", "ranks {}: {}",
                                              static_cast<long long>(ranks.size()),
                                              show_cpu_list(ranks), printable(what));
  return all.empty() ? all : text("last collectives: {}", all);
}

std::vector<int> gone_while_others_waited(const Try& one) {
  if (one.hangs.empty() || one.hangs.back().is_slow) return {};
  const HangSeen& hang = one.hangs.back();
  std::vector<int> gone;
  for (const HangSeen::Rank& rank : hang.ranks)
    if (rank.has_ended) gone.push_back(rank.rank);
  return gone == hang.odd_ranks ? gone : std::vector<int>();
}

const HangSeen* hang_now(const Tries& tries) {
  if (tries.all.empty() || tries.all.back().hangs.empty()) return nullptr;
  const HangSeen& last = tries.all.back().hangs.back();
  return last.is_over || last.is_slow ? nullptr : &last;
}

bool was_ended_for_hang(const Try& one) {
  // A Slurm task that hung and later failed by itself has no evidence. It was not ended for the
  // hang.
  return one.kind == TryClass::kHang && !one.evidence.empty();
}

const RankEnd* first_failed(const Try& one) {
  const auto found = std::find_if(one.ranks.begin(), one.ranks.end(), [](const RankEnd& rank) {
    return rank.part == RankPart::kFailedFirst;
  });
  return found == one.ranks.end() ? nullptr : &*found;
}

}  // namespace berth::model
