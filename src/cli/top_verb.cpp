// `berth top`: the live view, a single picture of it, or a stream of JSON.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <utility>

#include "base/descriptor.hpp"
#include "base/environment_variables.hpp"
#include "base/error_words.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/hosts.hpp"
#include "cli/look.hpp"
#include "cli/top_hosts.hpp"
#include "cli/verbs.hpp"
#include "client/lease.hpp"
#include "inventory/observe.hpp"
#include "model/device_selector.hpp"
#include "output/json.hpp"
#include "output/words.hpp"
#include "serve/watches.hpp"
#include "system/own_memory.hpp"
#include "top/draw.hpp"
#include "top/kept.hpp"
#include "top/replay.hpp"
#include "top/rows.hpp"
#include "top/screen.hpp"
#include "watch/sampler.hpp"

namespace berth::cli {
namespace {

constexpr std::chrono::minutes kFirstFrame(1);

Error no_frame() {
  return {ErrorCode::kUnavailable, "E0982", text("no driver answered within a minute"),
          "berth doctor"};
}

Result<watch::SamplerOptions> sampling_of(const Arguments& arguments) {
  watch::SamplerOptions sampling;
  if (const auto interval = arguments.value("--interval")) {
    const auto duration = parse_duration(*interval);
    if (!duration) return Error(duration.error()).during("--interval");
    sampling.interval =
        std::clamp(*duration, std::chrono::milliseconds(100), std::chrono::milliseconds(60'000));
  }
  sampling.decorate = [](model::Snapshot& snapshot) { add_leases(snapshot); };
  return sampling;
}

/// The width of printed lines. Unlimited if the output is not a terminal.
int line_width(const Context& context) {
  constexpr int kUnlimited = 10'000;
  return context.out_terminal.is_limited ? context.out_terminal.width : kUnlimited;
}

std::string kept_file() {
  const auto folder = env_nonempty("XDG_CONFIG_HOME");
  if (folder) return *folder + "/berth/top.toml";
  const auto home = env_nonempty("HOME");
  return home ? *home + "/.config/berth/top.toml" : "";
}

top::Settings settings_of(const Context& context) {
  const Arguments& arguments = context.arguments;
  top::Settings settings;
  // Use settings kept from an earlier live view only in a live view. The output for a script must
  // not depend on them.
  const bool is_live = !arguments.has("--once") && !context.json;
  if (is_live && !arguments.has("--defaults")) top::read_kept(kept_file(), settings);
  settings.sort = arguments.value("--sort").value_or(settings.sort);
  settings.filter = arguments.value("--filter").value_or("");
  settings.user = arguments.value("--user").value_or("");
  settings.graph = arguments.value("--graph").value_or(settings.graph);
  settings.theme = arguments.value("--theme").value_or(settings.theme);
  settings.is_reversed = settings.is_reversed || arguments.has("--reverse");
  settings.is_tree = settings.is_tree || arguments.has("--tree");
  settings.by_user = settings.by_user || arguments.has("--by-user");
  if (arguments.has("--tree")) settings.by_user = false;
  settings.shows_queue = arguments.has("--queue");
  settings.has_graphs = settings.has_graphs && !arguments.has("--no-graphs");
  settings.utf8 = context.out_terminal.utf8 && !arguments.has("--ascii");
  return settings;
}

/// Converts --device to device numbers, when the first sample of the devices (a frame) has arrived.
Status choose_devices(const Arguments& arguments, const watch::Frame& frame,
                      top::Settings& settings) {
  const auto named = arguments.values("--device");
  if (named.empty()) return Done{};
  const auto selected = model::select_devices(frame.snapshot.devices, named);
  if (!selected) return selected.error();
  for (const model::Selected& one : *selected) settings.devices.insert(one.device);
  return Done{};
}

std::string painted(const std::vector<top::Line>& lines, const output::Terminal& terminal) {
  std::string all;
  for (const top::Line& line : lines) {
    std::string text;
    for (const top::Span& span : line) text += terminal.paint(span.style, span.text);
    all += text + "\n";
  }
  return terminal.spell(std::move(all));
}

/// The job queue of this machine's broker. While the queue is shown, it is read with every frame
/// (sample).
class QueueWatch {
 public:
  [[nodiscard]] const top::Queue& queue() const { return queue_; }

  void read(const top::Settings& settings) {
    if (!settings.shows_queue) return;
    const auto answer = call("GET", "/v1/jobs?state=running,waiting,held&limit=500");
    const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
    queue_ = answer && answer->status == 200 ? top::queue_in(answer->body, now) : top::Queue{};
    if (top::QueuedJob* const job = selected(settings); job != nullptr && job->state == "waiting")
      if (const auto why = call("GET", fmt::format("/v1/jobs/{}/why", job->id)))
        job->why = top::why_in(why->body);
  }

  /// Holds or releases the selected job. Before it cancels a job, it asks for confirmation.
  void change(top::Settings& settings) {
    const char wanted = std::exchange(settings.job_change, 0);
    const top::QueuedJob* const job = selected(settings);
    if (wanted != 0 && job == nullptr) {
      settings.message = text("no job is selected: up and down select one");
    } else if (wanted == 'c') {
      asked_ = job->id;
      settings.question = text("cancel job {} ({})?   y: yes   other keys: no", job->id, job->what);
    } else if (wanted == 'H') {
      tell(settings, job->id, job->state == "held" ? "release" : "hold");
    }
    if (std::exchange(settings.is_confirmed, false)) tell(settings, asked_, "cancel");
  }

 private:
  static std::optional<client::Response> call(const char* method, const std::string& path) {
    auto broker = client::broker_here(client::IfNone::kGlance);
    if (!broker) return std::nullopt;
    auto answer = broker->call(method, path);
    return answer ? std::optional(*std::move(answer)) : std::nullopt;
  }
  void tell(top::Settings& settings, std::uint64_t job, const char* change) {
    const auto answer = call("POST", fmt::format("/v1/jobs/{}/{}", job, change));
    const auto problem = answer ? client::error_in(answer->body) : std::nullopt;
    settings.message = !answer   ? text("no broker runs")
                       : problem ? problem->message
                                 : fmt::format("{} {}: ok", change, job);
    read(settings);
  }
  top::QueuedJob* selected(const top::Settings& settings) {
    if (!settings.has_row || queue_.jobs.empty()) return nullptr;
    const int last = static_cast<int>(queue_.jobs.size()) - 1;
    return &queue_.jobs[static_cast<std::size_t>(std::clamp(settings.row, 0, last))];
  }

  top::Queue queue_;
  std::uint64_t asked_ = 0;
};

std::string json_of(const watch::Frame& frame) {
  return output::frame_json(frame.snapshot,
                            {frame.number, frame.cost.cpu_seconds, frame.cost.driver_seconds});
}

/// Appends each frame (a sample of the devices) to the file that --record names.
class Recorder {
 public:
  /// Opens the file that --record names, if any. Fails with kUnavailable (E0966).
  static Result<Recorder> open(const Arguments& arguments) {
    Recorder recorder;
    const auto file = arguments.value("--record");
    if (!file) return recorder;
    recorder.file_.reset(
        ::open(file->c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600));
    if (!recorder.file_)
      return Error{
          ErrorCode::kUnavailable, "E0966",
          text("the recording {} cannot be used: {}", printable(*file), error_words(errno)),
          "berth top --record FILE"};
    return recorder;
  }
  /// Writes a frame (a sample of the devices) to the file. Fails with kUnavailable (E0966) if the
  /// disk is full.
  Status add(const watch::Frame& frame) {
    if (!file_ || frame.number == last_ || frame.is_early) return Done{};
    last_ = frame.number;
    const std::string line = json_of(frame);
    const ssize_t count = ::write(file_.get(), line.data(), line.size());
    if (count == static_cast<ssize_t>(line.size())) return Done{};
    return Error{
        ErrorCode::kUnavailable, "E0966",
        text("the recording could not be written: {}", error_words(count < 0 ? errno : ENOSPC)),
        "berth top --record FILE"};
  }

 private:
  Descriptor file_;
  std::uint64_t last_ = 0;
};

Result<int> stream_json(const Context& context, watch::Sampler& sampler, Recorder& recorder,
                        bool once) {
  for (watch::FramePtr frame = sampler.wait(0, kFirstFrame);;
       frame = sampler.wait(frame->number, kFirstFrame)) {
    if (!frame) return no_frame();
    context.out(json_of(*frame));
    if (auto added = recorder.add(*frame); !added) return std::move(added).error();
    if (once || context.write_error != 0) return 0;
  }
}

/// Wakes the main loop, which waits for keys, when a new frame (sample) arrives.
class Bell {
 public:
  Bell() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  void ring() const {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(event_.get(), &one, sizeof one));
  }
  void hush() const {
    std::uint64_t count = 0;
    static_cast<void>(!::read(event_.get(), &count, sizeof count));
  }
  [[nodiscard]] int descriptor() const { return event_.get(); }

 private:
  Descriptor event_;
};

/// The process to signal, while the user is asked for confirmation. A pidfd identifies it, so the
/// signal never goes to a later process with the same pid.
struct Target {
  Descriptor handle;
  std::string words;
};

/// Asks the user to confirm a signal. If no signal can be sent, shows why.
void ask_for_signal(const watch::Frame& frame, top::Settings& settings, Target& target) {
  if (settings.by_user) {
    settings.message = text("select a process: u shows the processes");
    return;
  }
  const model::DeviceProcess* const process = top::selected_process(frame, settings);
  if (process == nullptr) {
    settings.message = frame.is_early ? text("reading the processes ...")
                                      : text("no process is selected: up and down select one");
    return;
  }
  if (!process->pid) {
    settings.message = text("this process is not visible here, so no signal reaches it");
    return;
  }
  if (::geteuid() != 0 && process->uid != ::geteuid()) {
    settings.message =
        text("this process belongs to {}: only root may end it", printable(process->user));
    return;
  }
  target.handle.reset(static_cast<int>(::syscall(SYS_pidfd_open, *process->pid, 0)));
  const auto ticks = serve::start_ticks_of(*process->pid);
  if (!target.handle || (process->start_ticks && ticks != process->start_ticks)) {
    settings.message = text("this process has ended");
    return;
  }
  target.words = fmt::format("{} {}", *process->pid, output::short_command(process->command));
  settings.question = text("end {}?   y: SIGTERM   K: SIGKILL   other keys: no", target.words);
}

void send_signal(top::Settings& settings, const Target& target) {
  const int signal = std::exchange(settings.signal, 0);
  const bool is_sent =
      ::syscall(SYS_pidfd_send_signal, target.handle.get(), signal, nullptr, 0) == 0;
  settings.message =
      is_sent ? text("sent {} to {}", signal == SIGKILL ? "SIGKILL" : "SIGTERM", target.words)
              : text("no signal was sent: {}", error_words(errno));
}

void keep(const std::string& file, const top::Kept& before, const top::Kept& after) {
  if (before != after && !file.empty()) static_cast<void>(top::keep_changes(file, before, after));
}

/// Plays a recording at its original speed.
class Player {
 public:
  explicit Player(top::Replay replay)
      : replay_(std::move(replay)), timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) {
    show(0);
  }
  [[nodiscard]] int descriptor() const { return timer_.get(); }
  [[nodiscard]] const watch::FramePtr& frame() const { return frame_; }
  [[nodiscard]] const top::Series& series() const { return series_; }
  [[nodiscard]] std::string position() const {
    return fmt::format("{}/{}", place_ + 1, replay_.size());
  }
  void move(top::Settings& settings) {
    std::uint64_t times = 0;
    pollfd due{timer_.get(), POLLIN, 0};
    const bool is_due = ::poll(&due, 1, 0) > 0 && ::read(timer_.get(), &times, sizeof times) > 0;
    const int steps = std::exchange(settings.steps, 0);
    if (steps != 0) settings.is_paused = true;
    if (steps < 0)
      show(place_ - std::min(place_, static_cast<std::size_t>(-steps)));
    else if (steps > 0 || (is_due && !settings.is_paused))
      show(std::min(place_ + static_cast<std::size_t>(std::max(steps, 1)), replay_.size() - 1));
    else if (is_due)
      wait(1);
  }

 private:
  void show(std::size_t place) {
    // After a jump back, the graphs show this many frames (samples) before the new position.
    constexpr std::size_t kPast = 120;
    if (frame_ && place == place_) return wait(1);
    if (place < place_) {
      series_ = {};
      for (std::size_t i = place - std::min(place, kPast); i < place; ++i)
        series_.add(*replay_.at(i));
    }
    const double before = frame_ ? frame_->seconds : 0;
    frame_ = replay_.at(place);
    series_.add(*frame_);
    place_ = place;
    const double gap = frame_->seconds - before;
    wait(gap > 0 && gap < 10 ? gap : 1);
  }
  void wait(double seconds) const {
    itimerspec at = {};
    const auto nanoseconds = static_cast<std::int64_t>(seconds * 1e9);
    at.it_value = {nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
    ::timerfd_settime(timer_.get(), 0, &at, nullptr);
  }

  top::Replay replay_;
  Descriptor timer_;
  top::Series series_;
  watch::FramePtr frame_;
  std::size_t place_ = 0;
};

Result<std::unique_ptr<top::Screen>> open_screen(const Context& context) {
  return top::Screen::open(context.out_terminal.color, !context.arguments.has("--no-mouse"));
}

Result<int> play_live(const Context& context, top::Replay replay, top::Settings settings) {
  auto screen = open_screen(context);
  if (!screen) return std::move(screen).error();
  Player player(std::move(replay));
  if (auto chosen = choose_devices(context.arguments, *player.frame(), settings); !chosen)
    return chosen.error();
  for (;;) {
    player.move(settings);
    if (settings.message.empty())
      settings.message =
          text("replay {}   space pause   left, right step   q quit", player.position());
    const auto size = (*screen)->size();
    (*screen)->paint(settings.theme);
    (*screen)->show(top::draw(*player.frame(), player.series(), settings, size.width, size.height));
    settings.message.clear();
    const auto pressed = (*screen)->wait(player.descriptor());
    if ((*screen)->is_over()) return 0;
    for (const top::Pressed& one : pressed) {
      if (!top::press(settings, one.key, one.character)) return 0;
      if (std::exchange(settings.is_clicked, false))
        top::click(*player.frame(), settings, size.width, size.height, one.x, one.y);
      if (std::exchange(settings.wants_signal, false) || std::exchange(settings.shows_queue, false))
        settings.message = text("this is not possible in a recording");
    }
  }
}

Result<int> play(const Context& context, top::Settings settings) {
  auto replay = top::Replay::open(*context.arguments.value("--replay"));
  if (!replay) return std::move(replay).error();
  if (!context.json && !context.arguments.has("--once"))
    return play_live(context, *std::move(replay), std::move(settings));
  const watch::FramePtr last = replay->at(replay->size() - 1);
  if (auto chosen = choose_devices(context.arguments, *last, settings); !chosen)
    return chosen.error();
  context.out(context.json ? json_of(*last)
                           : painted(top::draw(*last, {}, settings, line_width(context), 0),
                                     context.out_terminal));
  return 0;
}

Result<int> show_live(const Context& context, watch::SamplerOptions sampling,
                      top::Settings settings) {
  auto recorder = Recorder::open(context.arguments);
  if (!recorder) return std::move(recorder).error();
  const std::string kept = kept_file();
  const top::Kept begun = settings;
  const Bell bell;
  sampling.early_frame = true;
  sampling.on_frame = [&bell](const watch::FramePtr&) { bell.ring(); };
  watch::Sampler sampler(inventory::Sources::from_environment(), std::move(sampling));
  watch::FramePtr frame = sampler.wait(0, kFirstFrame);
  if (!frame) return no_frame();
  if (auto chosen = choose_devices(context.arguments, *frame, settings); !chosen)
    return chosen.error();
  auto screen = open_screen(context);
  if (!screen) return std::move(screen).error();
  top::Series series;
  std::uint64_t seen = 0;
  Target target;
  QueueWatch queue;
  // After this many frames (samples), the memory that only the start needed is released.
  constexpr std::uint64_t kStarted = 4;
  for (bool goes_on = true, is_small = false; goes_on;) {
    bell.hush();
    frame = sampler.newest();
    if (frame->number >= kStarted && !std::exchange(is_small, true))
      system::release_startup_memory();
    if (frame->number != seen && !frame->is_early) series.add(*frame);
    seen = frame->number;
    if (const auto added = recorder->add(*frame); !added) settings.message = added.error().message;
    queue.read(settings);
    (*screen)->paint(settings.theme);
    const auto size = (*screen)->size();
    (*screen)->show(top::draw(*frame, series, settings, size.width, size.height, queue.queue()));
    const auto pressed = (*screen)->wait(bell.descriptor());
    if ((*screen)->is_over()) break;
    for (const top::Pressed& one : pressed) {
      goes_on = goes_on && top::press(settings, one.key, one.character);
      if (std::exchange(settings.is_clicked, false))
        top::click(*frame, settings, size.width, size.height, one.x, one.y);
      if (std::exchange(settings.wants_signal, false)) ask_for_signal(*frame, settings, target);
      if (settings.signal != 0) send_signal(settings, target);
      queue.change(settings);
    }
  }
  keep(kept, begun, settings);
  return 0;
}

}  // namespace

Result<int> run_top(const Context& context) {
  if (is_for_hosts(context.arguments)) {
    for (const char* const file : {"--record", "--replay"})
      if (context.arguments.has(file)) return contradiction("--host", file);
    if (context.arguments.has("--once")) return on_hosts(context, "top");
    for (const char* const of_one : {"--queue", "--device"})
      if (context.arguments.has(of_one)) return contradiction("--host", of_one);
    top::Settings settings = settings_of(context);
    const top::Kept begun = settings;
    auto ended = watch_hosts(context, settings);
    keep(kept_file(), begun, settings);
    return ended;
  }
  if (context.arguments.has("--tree") && context.arguments.has("--by-user"))
    return contradiction("--tree", "--by-user");
  if (auto checked = inventory::Sources::check_environment(); !checked)
    return std::move(checked).error();
  auto sampling = sampling_of(context.arguments);
  if (!sampling) return std::move(sampling).error();
  top::Settings settings = settings_of(context);
  if (context.arguments.has("--replay")) {
    for (const char* const other : {"--record", "--queue"})
      if (context.arguments.has(other)) return contradiction(other, "--replay");
    return play(context, std::move(settings));
  }
  system::use_one_heap();
  const bool once = context.arguments.has("--once");
  if (!context.json && !once) return show_live(context, *std::move(sampling), std::move(settings));
  auto recorder = Recorder::open(context.arguments);
  if (!recorder) return std::move(recorder).error();
  watch::Sampler sampler(inventory::Sources::from_environment(), *std::move(sampling));
  if (context.json) return stream_json(context, sampler, *recorder, once);
  const watch::FramePtr frame = sampler.wait(0, kFirstFrame);
  if (!frame) return no_frame();
  if (auto chosen = choose_devices(context.arguments, *frame, settings); !chosen)
    return chosen.error();
  if (auto added = recorder->add(*frame); !added) return std::move(added).error();
  QueueWatch queue;
  queue.read(settings);
  context.out(painted(top::draw(*frame, {}, settings, line_width(context), 0, queue.queue()),
                      context.out_terminal));
  return 0;
}

}  // namespace berth::cli
