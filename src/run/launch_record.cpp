#include "run/launch_record.hpp"

#include <optional>

#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::run {
namespace {

class Writer {
 public:
  void word(std::string_view one) {
    bytes_ += one;
    bytes_ += '\0';
  }
  void number(std::int64_t one) { word(std::to_string(one)); }
  template <typename Numbers>
  void numbers(const Numbers& all) {
    number(static_cast<std::int64_t>(all.size()));
    for (const auto one : all) number(static_cast<std::int64_t>(one));
  }
  void words(const std::vector<std::string>& all) {
    number(static_cast<std::int64_t>(all.size()));
    for (const std::string& one : all) word(one);
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads fields in the order in which they were written. After a missing or invalid field, all
/// further fields are empty, and is_good() is false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  std::string_view word() {
    const auto end = rest_.find('\0');
    if (!good_ || end == std::string_view::npos) {
      good_ = false;
      return {};
    }
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return found;
  }
  template <typename T>
  T number() {
    const auto found = to_number(word());
    good_ = good_ && found && static_cast<std::int64_t>(static_cast<T>(*found)) == *found;
    return good_ ? static_cast<T>(*found) : T{};
  }
  template <typename T>
  std::vector<T> numbers() {
    std::vector<T> all;
    for (auto left = number<std::uint32_t>(); left > 0 && good_; --left) all.push_back(number<T>());
    return all;
  }
  std::vector<std::string> words() {
    std::vector<std::string> all;
    for (auto left = number<std::uint32_t>(); left > 0 && good_; --left) all.emplace_back(word());
    return all;
  }
  [[nodiscard]] bool has_more() const { return good_ && !rest_.empty(); }
  [[nodiscard]] bool is_good() const { return good_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

void write_limits(Writer& out, const model::Limits& limits) {
  out.number(static_cast<std::int64_t>(limits.resources.size()));
  for (const model::Limit& one : limits.resources) {
    out.number(one.resource);
    out.number(static_cast<std::int64_t>(one.soft));
    out.number(static_cast<std::int64_t>(one.hard));
  }
  out.number(limits.nice ? 1 : 0);
  out.number(limits.nice.value_or(0));
}

void write_inherited(Writer& out, const model::Limits& limits) {
  out.number(limits.oom_score_adj ? 1 : 0);
  out.number(limits.oom_score_adj.value_or(0));
  out.numbers(limits.cpus);
  for (const auto& mask : {limits.blocked, limits.ignored}) {
    out.number(mask ? 1 : 0);
    out.number(static_cast<std::int64_t>(mask.value_or(0)));
  }
  out.number(limits.no_new_privileges ? 1 : 0);
}

void read_inherited(Reader& in, model::Limits& limits) {
  const bool has_score = in.number<int>() != 0;
  const int score = in.number<int>();
  if (has_score) limits.oom_score_adj = score;
  limits.cpus = in.numbers<int>();
  for (auto* mask : {&limits.blocked, &limits.ignored}) {
    const bool has_mask = in.number<int>() != 0;
    const auto bits = in.number<std::uint64_t>();
    if (has_mask) *mask = bits;
  }
  limits.no_new_privileges = in.number<int>() != 0;
}

model::Limits limits_in(Reader& in) {
  model::Limits limits;
  for (auto left = in.number<std::uint32_t>(); left > 0 && in.has_more(); --left) {
    const int resource = in.number<int>();
    const auto soft = in.number<std::uint64_t>();
    limits.resources.push_back({resource, soft, in.number<std::uint64_t>()});
  }
  const bool has_nice = in.number<int>() != 0;
  const int nice = in.number<int>();
  if (has_nice) limits.nice = nice;
  return limits;
}

/// Leaves out Setting::why, because reports do not contain it.
void write_about(Writer& out, const Launch& launch) {
  out.word(launch.name);
  out.words(launch.reasons);
  out.number(static_cast<std::int64_t>(launch.settings.size()));
  for (const model::Setting& one : launch.settings) {
    out.number(static_cast<std::int64_t>(one.action));
    out.word(one.name);
    out.word(one.value);
  }
}

void read_about(Reader& in, Launch& launch) {
  launch.name = in.word();
  launch.reasons = in.words();
  for (auto left = in.number<std::uint32_t>(); left > 0 && in.has_more(); --left) {
    model::Setting& one = launch.settings.emplace_back();
    one.action = static_cast<model::Setting::Action>(in.number<int>());
    one.name = in.word();
    one.value = in.word();
  }
}

}  // namespace

std::string record_of(const Launch& launch) {
  const Credentials user = launch.user.value_or(Credentials{});
  Writer out;
  out.words(launch.command);
  out.words(launch.environment);
  out.word(launch.folder);
  out.word(launch.group);
  out.word(launch.job_files);
  out.numbers(launch.cpus);
  out.number(launch.mask.value_or(077));
  out.number(user.uid);
  out.number(user.gid);
  out.numbers(user.groups);
  write_limits(out, launch.limits);
  write_inherited(out, launch.limits);
  out.number(launch.grace.count());
  out.word(launch.on_end);
  out.number(launch.checkpoint.signal);
  out.number(launch.checkpoint.before.count());
  // Only the record for a keeper has these fields. The record in the journal does not have them, so
  // older versions can read it.
  if (!launch.name.empty() || !launch.reasons.empty() || !launch.settings.empty())
    write_about(out, launch);
  return out.take();
}

Result<Launch> launch_in(std::string_view record) {
  Reader in(record);
  Launch launch;
  Credentials user;
  launch.command = in.words();
  launch.environment = in.words();
  launch.folder = in.word();
  launch.group = in.word();
  launch.job_files = in.word();
  launch.cpus = in.numbers<int>();
  launch.mask = in.number<mode_t>();
  user.uid = in.number<uid_t>();
  user.gid = in.number<gid_t>();
  user.groups = in.numbers<gid_t>();
  // Records of older versions may end here, after the limits, or after `on_end`.
  if (in.has_more()) launch.limits = limits_in(in);
  if (in.has_more()) {
    read_inherited(in, launch.limits);
    launch.grace = std::chrono::milliseconds(in.number<std::int64_t>());
    launch.on_end = in.word();
  }
  if (in.has_more()) {
    launch.checkpoint.signal = in.number<int>();
    launch.checkpoint.before = std::chrono::milliseconds(in.number<std::int64_t>());
  }
  if (in.has_more()) read_about(in, launch);
  launch.user = std::move(user);
  if (in.is_good() && !launch.command.empty()) return launch;
  return Error{ErrorCode::kUnavailable, "E0517",
               text("the launch record of the job cannot be read"), "berth jobs"};
}

}  // namespace berth::run
