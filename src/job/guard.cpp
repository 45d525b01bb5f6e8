#include "job/guard.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
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

}  // namespace

Status Guard::check(const std::string& isolation) {
  if (isolation == "auto" || isolation == "guard" || isolation == "none") return Done{};
  return Error{ErrorCode::kInvalidArgument, "E0106",
               text("--isolation: '{}' is not auto, guard or none", printable(isolation)), ""};
}

Result<Guard> Guard::begin(const std::string& isolation, bool in_container,
                           const model::Request& request, const model::Placement& placement,
                           const model::Snapshot& snapshot, const std::string& job_folder,
                           std::vector<std::string>& environment) {
  Guard guard;
  if (placement.devices.empty() || (!request.memory_bytes && !request.share_permille)) return guard;
  guard.guarded_.emplace();
  // Inside a job, keep the job's own guard: a second one would replace it and its limits. Its files
  // cannot be mounted into a container, which gets limits of its own.
  if (!in_container && !value_in(environment, "BERTH_GUARD").empty()) {
    guard.guarded_->not_enforced = text("the limits of the surrounding job apply");
    return guard;
  }
  if (isolation == "none") {
    guard.guarded_->not_enforced = text("switched off by {}", "--isolation none");
    return guard;
  }
  if (!guard::Setup::is_wanted(request, placement, snapshot)) {
    guard.guarded_->not_enforced = text("the guard does not know this kind of device");
    return guard;
  }
  const auto job = to_number(value_in(environment, "BERTH_JOB"));
  auto setup = guard::Setup::make(
      job_folder, static_cast<std::uint64_t>(job.value_or(0)), request, placement, snapshot,
      in_container ? guard::Keep::kForContainer : guard::Keep::kInMemory);
  if (setup)
    if (auto room = guard::Setup::leaves_room(request, placement, snapshot); !room) {
      setup->remove();
      setup = std::move(room).error();
    }
  if (!setup) {
    if (isolation == "guard" || setup.error().id == "E0956") {
      run::remove_job_folder(job_folder);
      return std::move(setup).error();
    }
    guard.guarded_->not_enforced = fmt::format("{} ({})", setup.error().message, setup.error().id);
    return guard;
  }
  guard.setup_ = *std::move(setup);
  if (in_container) return guard;
  std::map<std::string, std::string> variables;
  for (const char* name : {"LD_PRELOAD", "OPENCL_LAYERS"})
    if (std::string value = value_in(environment, name); !value.empty())
      variables[name] = std::move(value);
  guard.setup_->set_variables(variables);
  for (const auto& [name, value] : variables) set_in(environment, name, value);
  return guard;
}

std::vector<guard::MountedFile> Guard::files() const {
  return setup_ ? setup_->files() : std::vector<guard::MountedFile>();
}

void Guard::fill(model::Report& report) const {
  report.guarded = guarded_;
  if (!guarded_) return;
  const bool used = std::any_of(
      guarded_->devices.begin(), guarded_->devices.end(),
      [](const model::GuardedDevice& one) { return one.allocations + one.launches > 0; });
  if (!used || report.gpu_use == model::GpuUse::kSeen) return;
  report.gpu_use = model::GpuUse::kSeen;
  report.gpu_use_method = text("the guard counted the job's calls to the driver");
  report.suggestions.clear();
}

void Guard::look(std::optional<client::Lease>& lease, const run::Sampler& sampler) {
  if (!setup_) return;
  setup_->look();
  for (const run::Sampler::Held& held : sampler.held()) {
    std::int64_t& newest = sampled_[held.device];
    if (held.unix_milliseconds <= newest) continue;
    newest = held.unix_milliseconds;
    setup_->reconcile(held.device, held.bytes, held.processes, held.unix_milliseconds);
  }
  // The job itself can write wishes. With a broker that is stopped, each would delay the watching
  // of the job, so the broker is not asked again soon.
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
  setup_->remove();
  setup_.reset();
}

}  // namespace berth::job
