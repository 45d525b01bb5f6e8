#include "run/rank_lines.hpp"

namespace berth::run {

void RankLines::end_line(std::string& out) {
  // A progress bar rewrites its line after each carriage return. Keep the last version of the line,
  // as a terminal would show it.
  if (!rest_.empty() && rest_.back() == '\r') rest_.pop_back();
  if (const auto at = rest_.rfind('\r'); at != std::string::npos) rest_.erase(0, at + 1);
  out += prefix_ + rest_ + '\n';
  rest_.clear();
}

std::string RankLines::add(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, std::min(end, kLongest - rest_.size()));
    rest_ += part;
    bytes.remove_prefix(part.size());
    if (!bytes.empty() && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      end_line(out);
    } else if (rest_.size() >= kLongest) {
      const auto again = rest_.rfind('\r', rest_.size() - 2);
      again == std::string::npos ? end_line(out) : static_cast<void>(rest_.erase(0, again + 1));
    }
  }
  return out;
}

std::string RankLines::take_rest() {
  std::string out;
  if (!rest_.empty()) end_line(out);
  return out;
}

void Tail::add(std::string_view bytes) {
  if (bytes.size() >= most_) {
    bytes_ = bytes.substr(bytes.size() - most_);
    return;
  }
  bytes_ += bytes;
  if (bytes_.size() > 2 * most_) bytes_.erase(0, bytes_.size() - most_);
}

}  // namespace berth::run
