#include "run/nccl_log.hpp"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"

namespace berth::run {
namespace {

constexpr std::size_t kMostFileBytes = 16 << 20;
// largest number of files of one rank; each process of the rank that uses NCCL writes one
constexpr std::size_t kMostFiles = 64;
constexpr std::size_t kLongestLogLine = 4096;
constexpr std::size_t kMostLinks = 4096;
constexpr std::size_t kMostChannels = 256;  // largest number of channels of one link
constexpr std::size_t kMostWarnings = 3;
constexpr int kMostRank = 1 << 24;

/// Removes `word` from the front of `text`.
bool drop(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{} || number < 0 || number > kMostRank) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// Parses a rank and its device, such as "1[7]". Older versions write a bus id in the brackets.
std::optional<int> take_rank(std::string_view& text) {
  const auto rank = take_number(text);
  if (!rank || !drop(text, "[")) return rank;
  const auto close = text.find(']');
  if (close == std::string_view::npos || close > 32) return std::nullopt;
  text.remove_prefix(close + 1);
  return rank;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Shortens the name of a transport: "NET/IB/3/GDRDMA(PCI)/Shared" becomes "NET/IB/GDRDMA",
/// "P2P/CUMEM/read" becomes "P2P/CUMEM".
std::string short_transport(std::string_view words) {
  constexpr std::size_t kLongest = 40;
  constexpr std::array<std::string_view, 3> kDetails{"read", "CE", "Shared"};
  std::string out;
  // cut off the name of the communicator, which RCCL adds
  words = words.substr(0, words.find(" comm "));
  for (std::string_view part : split(words, '/')) {
    part = trim(part.substr(0, part.find_first_of("([")));
    // "SHM/direct/CE" has a word for each end, so keep both
    const bool is_direction = out.starts_with("SHM");
    if (part.empty() || is_number(part)) continue;
    if (!is_direction && std::find(kDetails.begin(), kDetails.end(), part) != kDetails.end())
      continue;
    out += (out.empty() ? "" : "/") + std::string(part);
  }
  if (out.size() > kLongest) out.resize(kLongest);
  return printable(out);
}

/// The text after `key`, up to the next space.
std::string_view word_behind(std::string_view line, std::string_view key) {
  const auto at = line.find(key);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + key.size());
  return line.substr(0, line.find_first_of(" \t\r,"));
}

void keep_first(std::string& kept, std::string_view found) {
  constexpr std::size_t kLongest = 40;
  if (kept.empty() && !found.empty()) kept = printable(found.substr(0, kLongest));
}

}  // namespace

std::optional<NcclChannel> parse_nccl_channel(std::string_view line) {
  constexpr std::string_view kInfo = "NCCL INFO ";
  const auto at = line.find(kInfo);
  if (at == std::string_view::npos || line.size() > kLongestLogLine) return std::nullopt;
  line.remove_prefix(at + kInfo.size());
  if (!drop(line, "Channel ") && !drop(line, "Ring ")) return std::nullopt;
  NcclChannel found;
  const auto channel = take_number(line);
  if (!channel) return std::nullopt;
  found.channel = *channel;
  if (drop(line, "/")) {
    const auto connection = take_number(line);
    if (!connection) return std::nullopt;
    found.connection = *connection;
  }
  if (!drop(line, " : ")) return std::nullopt;
  const auto from = take_rank(line);
  if (!from || !drop(line, " -> ")) return std::nullopt;
  const auto to = take_rank(line);
  if (!to) return std::nullopt;
  static_cast<void>(drop(line, " [send]") || drop(line, " [receive]"));
  if (!drop(line, " via ")) return std::nullopt;
  found.from = *from;
  found.to = *to;
  found.transport = short_transport(line);
  return found.transport.empty() ? std::nullopt : std::optional(std::move(found));
}

void NcclLogs::add_channel(NcclChannel channel) {
  const auto key = [](const auto& one) { return std::tie(one.from, one.to, one.transport); };
  auto at = std::lower_bound(links_.begin(), links_.end(), channel,
                             [&](const auto& a, const auto& b) { return key(a) < key(b); });
  if (at == links_.end() || key(*at) != key(channel)) {
    if (links_.size() >= kMostLinks) return;
    at = links_.insert(at, {channel.from, channel.to, std::move(channel.transport), {}});
  }
  const std::pair number{channel.channel, channel.connection};
  const auto place = std::lower_bound(at->channels.begin(), at->channels.end(), number);
  if (at->channels.size() < kMostChannels && (place == at->channels.end() || *place != number))
    at->channels.insert(place, number);
}

void NcclLogs::add(int rank, std::string_view log) {
  int communicators = 0;
  while (!log.empty()) {
    const auto end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, std::min(end, kLongestLogLine));
    log.remove_prefix(std::min(end + 1, log.size()));
    keep_first(seen_.version, word_behind(line, "NCCL version "));
    if (line.find("NCCL ") == std::string_view::npos) continue;
    has_lines_ = true;
    if (auto channel = parse_nccl_channel(line)) {
      add_channel(*std::move(channel));
      continue;
    }
    keep_first(seen_.network, word_behind(line, "NCCL INFO Using network "));
    if (line.find(" nranks ") != std::string_view::npos && trim(line).ends_with("Init COMPLETE"))
      ++communicators;
    constexpr std::string_view kWarn = "NCCL WARN ";
    const auto warn = line.find(kWarn);
    if (warn == std::string_view::npos) continue;
    constexpr std::size_t kLongest = 200;
    const std::string words = printable(trim(line.substr(warn + kWarn.size())).substr(0, kLongest));
    const auto is_same = [&](const std::string& one) { return one.ends_with(": " + words); };
    if (words.empty() || std::any_of(seen_.warnings.begin(), seen_.warnings.end(), is_same))
      continue;
    if (seen_.warnings.size() < kMostWarnings)
      seen_.warnings.push_back(fmt::format("rank {}: {}", rank, words));
    else
      ++seen_.more_warnings;
  }
  seen_.communicators = std::max(seen_.communicators, communicators);
}

std::optional<model::NcclSeen> NcclLogs::result() const {
  if (!has_lines_) return std::nullopt;
  model::NcclSeen seen = seen_;
  for (const Link& one : links_)
    seen.links.push_back({one.from, one.to, one.transport, static_cast<int>(one.channels.size())});
  return seen;
}

std::string nccl_debug_file(const std::string& stem) {
  std::string out;
  // escape each "%", because NCCL expands "%p"
  for (const char one : stem) out += one == '%' ? "%%" : std::string(1, one);
  return out + ".%p.log";
}

void read_nccl_files(const std::string& stem, int rank, bool removes, NcclLogs& logs) {
  const auto slash = stem.rfind('/');
  const std::string folder = stem.substr(0, slash);
  const std::string begin = stem.substr(slash + 1) + ".";
  std::vector<std::string> names;
  DIR* stream = ::opendir(folder.c_str());
  if (stream == nullptr) return;
  while (const dirent* entry =
             ::readdir(stream)) {  // NOLINT(concurrency-mt-unsafe): its own stream
    const std::string_view name = entry->d_name;
    if (!name.starts_with(begin) || !name.ends_with(".log") || names.size() >= kMostFiles) continue;
    if (name.size() > begin.size() + 4 &&
        is_number(name.substr(begin.size(), name.size() - begin.size() - 4)))
      names.emplace_back(name);
  }
  ::closedir(stream);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    if (const auto bytes = slurp_regular(path, kMostFileBytes)) logs.add(rank, *bytes);
    if (removes) ::unlink(path.c_str());
  }
}

}  // namespace berth::run
