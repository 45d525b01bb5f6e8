#include "cli/top_hosts.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/json.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "cli/end_signals.hpp"
#include "cli/host_streams.hpp"
#include "cli/hosts.hpp"
#include "top/hosts.hpp"
#include "top/replay.hpp"
#include "top/screen.hpp"

namespace berth::cli {
namespace {

using std::chrono::milliseconds;

struct Asked {
  std::vector<std::string> hosts;
  std::string command;
  HostStreams::Options options;
};

Result<Asked> asked_in(const Arguments& arguments) {
  auto hosts = host_names(arguments);
  if (!hosts) return std::move(hosts).error();
  Asked asked{*std::move(hosts), "berth top --json", {}};
  if (const auto interval = arguments.value("--interval")) {
    const auto duration = parse_duration(*interval);
    if (!duration) return Error(duration.error()).during("--interval");
    asked.command += " --interval=" + shell_word(*interval);
    asked.options.silence += *duration;
  }
  return asked;
}

/// Keeps the newest state of each machine for the view.
class Machines {
 public:
  explicit Machines(const Asked& asked)
      : streams_(asked.hosts, asked.command, asked.options,
                 {[this](std::size_t at, std::string_view line) { take(at, line); },
                  [this](std::size_t at, const std::string& why) { lose(at, why); }}) {
    for (const std::string& name : asked.hosts) hosts_.push_back({.name = name});
  }
  [[nodiscard]] int descriptor() const { return streams_.descriptor(); }
  [[nodiscard]] const std::vector<top::HostState>& hosts() const { return hosts_; }
  void update() { streams_.update(); }

 private:
  void take(std::size_t at, std::string_view line) {
    if (!line.starts_with('{')) return;  // no JSON; probably a greeting of the login shell
    top::HostState& host = hosts_[at];
    auto frame = is_shallow(line) ? top::frame_in(line) : std::nullopt;
    if (!frame) return lose(at, text("its answer is not JSON"));
    host.frame = std::make_shared<watch::Frame>(*std::move(frame));
    host.series.add(*host.frame);
    host.problem.clear();
  }
  void lose(std::size_t at, const std::string& why) {
    hosts_[at].frame = nullptr;
    hosts_[at].problem = why;
  }

  std::vector<top::HostState> hosts_;
  HostStreams streams_;
};

/// Prints one line for each answer and for each failure of a machine.
Result<int> stream_hosts(const Context& context, const Asked& asked) {
  // Declared before the streams, so destroyed after them: their ssh programs end before the signals
  // take effect.
  EndSignals signals;
  const auto write = [&](std::size_t at, const std::string& document, const std::string& problem) {
    context.out(fmt::format(R"({{"schema":1,"host":{},"answered":{},"problem":{},"document":{}}})"
                            "\n",
                            nlohmann::json(printable(asked.hosts[at])).dump(), problem.empty(),
                            problem.empty()
                                ? "null"
                                : nlohmann::json(problem).dump(
                                      -1, ' ', false, nlohmann::json::error_handler_t::replace),
                            document.empty() ? "null" : document));
  };
  HostStreams streams(asked.hosts, asked.command, asked.options,
                      {[&](std::size_t at, std::string_view line) {
                         if (!line.starts_with('{')) return;
                         const bool is_frame = is_shallow(line) && top::frame_in(line);
                         write(at, is_frame ? std::string(line) : "",
                               is_frame ? "" : text("its answer is not JSON"));
                       },
                       [&](std::size_t at, const std::string& why) { write(at, "", why); }});
  while (context.write_error == 0 && !signals.has_come(milliseconds(0))) {
    std::array<pollfd, 2> waits{{{streams.descriptor(), POLLIN, 0}, {STDOUT_FILENO, 0, 0}}};
    ::poll(waits.data(), waits.size(), 1000);
    if (waits[1].revents != 0) break;  // the reader of our stdout has exited
    streams.update();
  }
  return 0;
}

/// Disables keys that change something, because they work only on this machine.
void refuse_changes(top::Settings& settings) {
  const bool wants = std::exchange(settings.wants_signal, false) ||
                     std::exchange(settings.shows_queue, false) ||
                     std::exchange(settings.job_change, 0) != 0;
  if (wants) settings.message = text("this is not possible with --host: log in to that machine");
}

}  // namespace

Result<int> watch_hosts(const Context& context, top::Settings& settings) {
  const auto asked = asked_in(context.arguments);
  if (!asked) return asked.error();
  if (context.json) return stream_hosts(context, *asked);
  auto screen = top::Screen::open(context.out_terminal.color, !context.arguments.has("--no-mouse"));
  if (!screen) return std::move(screen).error();
  Machines machines(*asked);
  std::size_t selected = 0;
  for (;;) {
    machines.update();
    const auto& hosts = machines.hosts();
    if (settings.message.empty() && !settings.types_filter && settings.filter.empty())
      settings.message = text("left, right another machine   q quit   ? help");
    const auto size = (*screen)->size();
    (*screen)->paint(settings.theme);
    (*screen)->show(top::draw_hosts(hosts, selected, settings, size.width, size.height));
    settings.message.clear();
    const auto pressed = (*screen)->wait(machines.descriptor());
    if ((*screen)->is_over()) return 0;
    for (const top::Pressed& one : pressed) {
      if (!top::press(settings, one.key, one.character)) return 0;
      if (std::exchange(settings.is_clicked, false))
        top::click_hosts(hosts, selected, settings, size.width, size.height, one.x, one.y);
      const auto last = static_cast<std::ptrdiff_t>(hosts.size()) - 1;
      selected = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(
          static_cast<std::ptrdiff_t>(selected) + std::exchange(settings.steps, 0), 0, last));
      refuse_changes(settings);
    }
  }
}

}  // namespace berth::cli
