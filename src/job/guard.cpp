#include "job/guard.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "guard/live.hpp"
#include "run/descendants.hpp"
#include "run/job_folder.hpp"

namespace berth::job {
namespace {

std::string value_in(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& one : environment)
    if (one.starts_with(name + "=")) return one.substr(name.size() + 1);
  return "";
}

void set_in(std::vector<std::string>& environment, const std::string& name,
            const std::string& value) {
  std::erase_if(environment, [&](const std::string& one) { return one.starts_with(name + "="); });
  environment.push_back(name + "=" + value);
}

Error not_strict(const std::string& why) {
  return {ErrorCode::kUnavailable, "E1091",
          text("--strict: the limits cannot be enforced: {}", why), "berth run --memory 8GiB -- …"};
}

constexpr const char *kMpsMemory = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
                     *kMpsThreads = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

}  // namespace

Result<Guard> Guard::begin(Isolation wanted, IsolatedJob job, const std::string& job_folder,
                           std::vector<std::string>& environment) {
  Guard guard;
  guard.is_strict_ = job.strict;
  // If the user chose one of the other methods, continue even without work for the guard. Then that
  // method can report what it lacks.
  const bool may_do_nothing =
      wanted == Isolation::kAuto || wanted == Isolation::kGuard || wanted == Isolation::kNone;
  const bool has_work = !job.placement.devices.empty() && job.request.has_limits();
  if (may_do_nothing && !has_work) return guard;
  job.mps_folder = mps_folder(value_in(environment, "CUDA_MPS_PIPE_DIRECTORY"));
  const bool is_inner = !job.in_container && !value_in(environment, "BERTH_GUARD").empty();
  // Keep limits that the user set for MPS, unless MPS is requested.
  const bool has_own = !value_in(environment, kMpsMemory).empty();
  if (auto can = check_spill(wanted, job, is_inner); !can) {
    run::remove_job_folder(job_folder);
    return std::move(can).error();
  }
  auto method =
      choose_method(wanted == Isolation::kAuto && is_inner ? Isolation::kGuard : wanted, job);
  if (!method) {
    run::remove_job_folder(job_folder);
    return std::move(method).error();
  }
  if (*method == Isolation::kMps && wanted == Isolation::kAuto && has_own)
    method = Isolation::kGuard;
  if (!has_work && wanted != Isolation::kMig) return guard;
  guard.guarded_.emplace();
  // Inside a job, keep the job's own guard: a second one would replace it and its limits. A
  // container gets limits of its own, because the outer guard's files cannot be mounted into it.
  if (is_inner) {
    guard.guarded_->not_enforced = text("the limits of the surrounding job apply");
    if (!job.strict) return guard;
    run::remove_job_folder(job_folder);
    return not_strict(guard.guarded_->not_enforced);
  }
  if (*method == Isolation::kNone) {
    guard.guarded_->not_enforced = text("switched off by {}", "--isolation none");
    return guard;
  }
  guard.is_required_ = wanted == Isolation::kGuard || job.strict;
  for (const int index : job.placement.devices) {
    model::GuardedDevice& device = guard.limits_.emplace_back();
    device.device = index;
    device.memory_limit_bytes = job.request.memory_bytes;
    device.share_permille = job.request.share_permille;
    device.turns = job.request.turns;
    if (job.request.spills) device.spilled_peak_bytes = 0;
  }
  model::Request guarded = job.request;
  if (*method != Isolation::kGuard) guard.method_ = word_of(*method);
  if (*method == Isolation::kMps) {
    const MpsLimits limits = mps_limits(job, wanted == Isolation::kMps);
    if (!limits.memory.empty()) set_in(environment, kMpsMemory, limits.memory);
    guard.threads_percent_ = limits.threads;
    // MPS already limits the share. If the guard also took turns, the job would get only a share of
    // its share.
    if (limits.threads) {
      set_in(environment, kMpsThreads, std::to_string(*limits.threads));
      guarded.share_permille.reset();
      guarded.turns = {};
    }
  }
  if (auto set = guard.set_up(*method, guarded, job, job_folder, environment); !set) {
    run::remove_job_folder(job_folder);
    return std::move(set).error();
  }
  return guard;
}

Status Guard::set_up(Isolation method, const model::Request& request, const IsolatedJob& job,
                     const std::string& job_folder, std::vector<std::string>& environment) {
  const bool is_alone = method == Isolation::kGuard;
  if (!guard::Setup::is_wanted(request, job.placement, job.snapshot)) {
    const std::string why = text("the guard does not support this kind of device");
    if (is_alone) guarded_->not_enforced = why;
    if (is_strict_ && is_alone) return not_strict(why);
    return Done{};
  }
  const auto number = to_number(value_in(environment, "BERTH_JOB"));
  job_ = static_cast<std::uint64_t>(std::max<std::int64_t>(number.value_or(0), 0));
  auto setup =
      guard::Setup::make(job_folder, job_, request, job.placement, job.snapshot,
                         job.in_container ? guard::Keep::kForContainer : guard::Keep::kInMemory);
  if (setup)
    if (auto room = guard::Setup::leaves_room(request, job.placement, job.snapshot); !room) {
      setup->remove();
      setup = std::move(room).error();
    }
  if (!setup) {
    if (is_required_ || setup.error().id == "E0956") return std::move(setup).error();
    std::string why = fmt::format("{} ({})", setup.error().message, setup.error().id);
    (is_alone ? guarded_->not_enforced : guarded_->not_counted) = std::move(why);
    return Done{};
  }
  setup_ = *std::move(setup);
  // take a sample before the first process counts anything
  if (job_ != 0) trace_.look(setup_->live());
  if (is_strict_) set_in(environment, "BERTH_GUARD_STRICT", "1");
  if (job.in_container) return Done{};
  std::map<std::string, std::string> variables;
  for (const char* name : {"LD_PRELOAD", "OPENCL_LAYERS"})
    if (std::string value = value_in(environment, name); !value.empty())
      variables[name] = std::move(value);
  setup_->set_variables(variables);
  for (const auto& [name, value] : variables) set_in(environment, name, value);
  return Done{};
}

std::vector<guard::MountedFile> Guard::files() const {
  return setup_ ? setup_->files() : std::vector<guard::MountedFile>();
}

void Guard::fill(model::Report& report) const {
  report.guarded = guarded_;
  if (!guarded_) return;
  report.guarded->method = method_;
  report.guarded->threads_percent = threads_percent_;
  if (report.guarded->devices.empty() && report.guarded->not_enforced.empty())
    report.guarded->devices = limits_;
  add_unguarded(report);
  const bool used = std::any_of(
      guarded_->devices.begin(), guarded_->devices.end(),
      [](const model::GuardedDevice& one) { return one.allocations + one.launches > 0; });
  if (!used || report.gpu_use == model::GpuUse::kSeen) return;
  report.gpu_use = model::GpuUse::kSeen;
  report.gpu_use_method = text("the guard counted the job's calls to the driver");
  report.suggestions.clear();
}

void Guard::add_unguarded(model::Report& report) const {
  std::string most;
  std::uint64_t bytes = 0;
  for (const auto& [pid, one] : unguarded_) {
    const std::string memory = one.bytes > 0 ? show_bytes(one.bytes) : text("memory");
    const std::string name = printable(one.command);
    if (most.empty() || one.bytes > bytes) {
      most = text("{0} used by {1} (pid {2}), which runs without the guard", memory, name, pid);
      bytes = one.bytes;
    }
    if (one.ended)
      report.notes.push_back(text(
          "{0} (pid {1}) was ended: it used {2} without the guard (--strict)", name, pid, memory));
  }
  if (most.empty()) return;
  if (unguarded_.size() > 1)
    most += text_n(", and by {} more process", ", and by {} more processes",
                   static_cast<long long>(unguarded_.size() - 1), unguarded_.size() - 1);
  std::string& known = report.guarded->not_counted;
  known = known.empty() ? most : known + "; " + most;
}

void Guard::look_for_unguarded(const run::Sampler::Held& held) {
  std::optional<guard::LiveJob> job;
  for (const run::MemoryUser& user : held.users) {
    if (user.pid <= 0) continue;
    // A process registers in the counters before it takes memory. So read the counters after the
    // driver's list: they then contain each process of the list that has the guard.
    if (!job) job = guard::live_job(setup_->live());
    if (!job || !guard::lacks_guard(*job, user.pid)) continue;
    const auto pid = static_cast<pid_t>(user.pid);
    const bool is_new = !unguarded_.contains(user.pid);
    Unguarded& seen = unguarded_[user.pid];
    seen.bytes = std::max(seen.bytes, user.bytes);
    if (is_new) seen.command = run::command_of(pid);
    const auto stat = is_strict_ ? run::read_stat("/proc", pid) : std::nullopt;
    if (stat && run::signal_all({{pid, *stat}}, is_new ? SIGTERM : SIGKILL) == 0) seen.ended = true;
  }
}

void Guard::look(std::optional<client::Lease>& lease, const run::Sampler& sampler) {
  if (!setup_) return;
  setup_->look();
  if (job_ != 0) trace_.look(setup_->live());
  for (const run::Sampler::Held& held : sampler.held()) {
    std::int64_t& newest = sampled_[held.device];
    if (held.unix_milliseconds <= newest) continue;
    newest = held.unix_milliseconds;
    setup_->reconcile(held.device, held.bytes, static_cast<int>(held.users.size()),
                      held.unix_milliseconds);
    look_for_unguarded(held);
  }
  answer_wish(lease);
}

void Guard::answer_wish(std::optional<client::Lease>& lease) {
  // The job itself can write requests. If the broker is stopped, each request would delay the
  // monitoring of the job, so do not ask the broker again soon.
  constexpr std::chrono::milliseconds kShort(1000), kPause(5000);
  if (auto wish = setup_->wish()) wish_ = *wish;
  if (!wish_ || std::chrono::steady_clock::now() < ask_again_) return;
  std::optional<std::uint64_t> memory_bytes;
  std::optional<int> permille;
  if (const auto granted = lease ? lease->granted_now(kShort) : std::nullopt) {
    if (granted->memory_bytes > 0) memory_bytes = granted->memory_bytes;
    if (granted->share_permille > 0) permille = granted->share_permille;
  } else if (lease) {
    ask_again_ = std::chrono::steady_clock::now() + kPause;
  }
  setup_->grant(*std::exchange(wish_, std::nullopt), memory_bytes, permille);
}

void Guard::end() {
  if (!setup_) return;
  guarded_ = setup_->outcome();
  trace_.keep(setup_->live(), job_);
  setup_->remove();
  setup_.reset();
}

}  // namespace berth::job
