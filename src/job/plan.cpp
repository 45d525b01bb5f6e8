#include "job/plan.hpp"

#include <algorithm>

#include "base/file.hpp"
#include "base/units.hpp"
#include "engines/allocation.hpp"
#include "job/next_try.hpp"
#include "policy/demand.hpp"
#include "policy/environment.hpp"
#include "policy/placement.hpp"
#include "run/own_interface.hpp"
#include "run/preflight.hpp"

namespace berth::job {
namespace {

using std::chrono::milliseconds;
using Placed = Result<model::Placement>;

bool is_held(const Placed& placement) {
  return !placement && placement.error().id == "E0412";
}

/// Whether there are too few devices now. Either other jobs hold them, or the lease around this job
/// has too few.
bool has_too_few(const Placed& placement) {
  return is_held(placement) || (!placement && placement.error().id == "E0421");
}

/// Tells the user what the job waits for, and how to start without waiting.
void note_waiting(const Note& note, const model::Request& request, const Error& held) {
  std::vector<std::string> hints;
  if (!held.hint.empty()) {
    for (const std::string_view hint : split(held.hint, '\n')) hints.emplace_back(hint);
    hints.push_back(fmt::format("berth {} --no-wait …", request.verb));
  }
  note(text("waiting: {}", held.message), hints);
}

/// In a Slurm job Slurm assigns the devices: take no lease, and do not wait.
Status enter_allocation(const Spec& spec, Plan& plan) {
  plan.engine = engines::slurm_job(spec.variables);
  if (!plan.engine) return Done{};
  auto inside = engines::within(
      engines::allocation_of(*plan.engine, spec.variables, plan.request, plan.snapshot),
      plan.request);
  if (!inside) return std::move(inside).error();
  plan.request = *std::move(inside);
  return Done{};
}

/// What the machine could offer if no other job ran. A job that may use the CPU does not wait for a
/// device that does not exist.
Placed could_get(const Spec& spec, Plan& plan) {
  auto could = policy::place(plan.request, plan.snapshot);
  if (could || !spec.job.or_cpu_after || could.error().code != ErrorCode::kNoDevice) return could;
  plan.request = policy::on_cpu(plan.request);
  return policy::place(plan.request, plan.snapshot);
}

/// Reads the broker's leases. If they cannot be read, the plan assumes that there are none. A dry
/// run then says that they are not known.
void read_ledger(const Spec& spec, Machine& machine, const Note& note, Plan& plan) {
  auto ledger = machine.ledger();
  plan.ledger = ledger ? *std::move(ledger) : model::Ledger();
  if (ledger || !spec.dry_run) return;
  const Error& error = ledger.error();
  note(text("it is not known which jobs use which devices: {} ({})", error.message, error.id),
       error.hint.empty() ? std::vector<std::string>() : std::vector{error.hint});
}

/// Moves the job to the CPU, because it has waited for GPUs as long as --or-cpu-after allows.
void turn_to_cpu(const Spec& spec, const Note& note, Plan& plan) {
  plan.request = policy::on_cpu(plan.request);
  plan.turned_after = spec.job.or_cpu_after;
  note(text("the job waited {} for GPUs, and now runs on the CPU",
            show_duration(*plan.turned_after)),
       {});
}

/// Whether root's broker may make a MIG partition for the job. If so, the job asks the broker
/// although no partition fits.
bool may_be_made(const model::Request& request) {
  return request.mig_only.value_or(false) && request.memory_bytes;
}

/// Places the job on the devices of its lease. If it has no lease, places it on devices that other
/// jobs leave free.
Placed place_planned(const Plan& plan) {
  auto placement = plan.lease ? plan.lease->placement(plan.request, plan.snapshot)
                              : policy::place(plan.request, plan.snapshot, plan.ledger);
  if (placement && plan.turned_after)
    placement->reasons = {
        text("on the CPU: the job waited {} for GPUs", show_duration(*plan.turned_after))};
  if (placement && plan.lease && plan.lease->has_made_partition())
    placement->reasons.push_back(
        text("the MIG partition was made for this job, and is removed when the job ends"));
  return placement;
}

/// Without a lease, nothing reports that a device has become free, so this function looks again
/// periodically. A broker whose disk is full gives no leases, but it still knows the existing ones.
Placed place_without_lease(const Spec& spec, Machine& machine, const Note& note, Placed could,
                           Plan& plan) {
  const auto begun = std::chrono::steady_clock::now();
  read_ledger(spec, machine, note, plan);
  auto placement = plan.ledger.kept ? place_planned(plan) : std::move(could);
  for (bool waited = false; is_held(placement); waited = true) {
    // read who holds which device, because the error names them
    plan.snapshot = machine.look(true);
    if (auto ledger = machine.ledger()) plan.ledger = *std::move(ledger);
    placement = place_planned(plan);
    if (!is_held(placement) || !spec.waits()) break;
    if (waited && spec.job.or_cpu_after &&
        std::chrono::steady_clock::now() - begun >= *spec.job.or_cpu_after) {
      turn_to_cpu(spec, note, plan);
      return place_planned(plan);
    }
    machine.pause(milliseconds(waited ? 2000 : 1000));
    if (!waited) note_waiting(note, plan.request, placement.error());
  }
  return placement;
}

/// A job on a device, or with its own cores, takes a lease. A job on the CPU is only reported to a
/// broker that already runs. Leaves plan.lease empty if no broker can be reached.
Status take_lease(const Spec& spec, Machine& machine, const Note& note, bool needed, Plan& plan) {
  model::Job asked = spec.job;
  asked.request = plan.request;
  set_driver_limits(asked.request, spec.isolation, plan.snapshot.driver);
  const client::Lease::Wishes wishes{std::move(asked), spec.waits(), [&](const Error& held) {
                                       note_waiting(note, plan.request, held);
                                     }};
  auto lease = machine.take_lease(wishes, plan.snapshot,
                                  needed ? client::IfNone::kStart : client::IfNone::kGlance);
  if (lease) {
    plan.lease = *std::move(lease);
    return Done{};
  }
  const Error& error = lease.error();
  // If a broker exists but gives no readable answer, its leases are unknown, so take no devices.
  const bool no_broker = (error.code == ErrorCode::kUnavailable || error.id == "E0921") &&
                         ((error.id != "E0922" && error.id != "E1140") || !needed);
  if (!no_broker) return error;
  if (needed && !client::is_another_machine())
    note(text("no lease: {} ({}); another job may choose the same device", error.message, error.id),
         {});
  return Done{};
}

/// Whether the job has a device that only OpenCL lists. The broker does not know such devices.
bool is_opencl(const model::Placement& placement, const model::Snapshot& snapshot) {
  const auto is_one = [&](int index) {
    return std::any_of(snapshot.devices.begin(), snapshot.devices.end(), [&](const auto& device) {
      return device.index == index && device.kind == model::DeviceKind::kOpenCl;
    });
  };
  return std::any_of(placement.devices.begin(), placement.devices.end(), is_one);
}

Placed place_with_lease(const Spec& spec, Machine& machine, const Note& note, Plan& plan) {
  auto could = could_get(spec, plan);
  if (could && is_opencl(*could, plan.snapshot)) return could;
  auto around = machine.lease_around(plan.request);
  if (!around) return std::move(around).error();
  plan.lease = *std::move(around);
  if (plan.lease) return place_planned(plan);
  if (spec.dry_run) return place_without_lease(spec, machine, note, std::move(could), plan);
  if (!could && !is_held(could) && !may_be_made(plan.request)) return could;
  const bool needed = !could || !could->devices.empty() || plan.request.cpus || spec.job.time_limit;
  if (auto taken = take_lease(spec, machine, note, needed, plan); !taken)
    return std::move(taken).error();
  if (!plan.lease) return place_without_lease(spec, machine, note, std::move(could), plan);
  if (plan.lease->request(plan.request).gpus != plan.request.gpus) turn_to_cpu(spec, note, plan);
  if (plan.lease->waited() || plan.lease->has_made_partition()) plan.snapshot = machine.look(false);
  return place_planned(plan);
}

/// With --ranks MIN:MAX, requests as many ranks as there are free devices now, and waits only for
/// the smallest number. Inside a lease, it requests as many ranks as the lease has devices.
Placed place_some_ranks(const Spec& spec, Machine& machine, const Note& note, Plan& plan) {
  // If the user named devices or the CPU, the number of ranks does not change the request.
  if (plan.request.gpus == spec.job.request.gpus)
    return place_with_lease(spec, machine, note, plan);
  Spec fewer = spec;
  run::RankWish& ranks = *fewer.supervision.ranks;
  // If the machine has fewer devices than requested, start with as many ranks as it has devices
  // for.
  const int possible = plan.request.gpus.value_or(0) / ranks.gpus_per_rank.value_or(1);
  ranks.count = std::clamp(possible, *ranks.least, ranks.count);
  for (;; --ranks.count) {
    const bool is_last = ranks.count <= *ranks.least;
    fewer.may_wait = spec.may_wait && is_last;
    plan.request = request_for_ranks(spec.job.request, fewer.supervision, plan.snapshot);
    auto placement = place_with_lease(fewer, machine, note, plan);
    if (placement || is_last || !has_too_few(placement)) return placement;
    plan.lease.reset();
  }
}

Placed place_any(const Spec& spec, Machine& machine, const Note& note, Plan& plan) {
  if (plan.engine) return place_without_lease(spec, machine, note, could_get(spec, plan), plan);
  if (spec.supervision.ranks && spec.supervision.ranks->least)
    return place_some_ranks(spec, machine, note, plan);
  return place_with_lease(spec, machine, note, plan);
}

/// Sets the interface for Gloo if the job runs on several nodes, and the other nodes cannot reach
/// this machine by its own name.
void set_interface_for_gloo(const Spec& spec, Plan& plan) {
  constexpr const char* kName = "GLOO_SOCKET_IFNAME";
  const run::NodePlace& node = plan.supervision->node;
  if (node.count < 2 || node.address.empty() || spec.variables.contains(kName)) return;
  const auto interface = run::interface_for_gloo(node.address);
  if (!interface) return;
  plan.environment.settings.push_back(
      {model::Setting::Action::kSet, kName, *interface,
       text("this machine's own name is a loopback address, which other nodes cannot reach")});
}

}  // namespace

Result<Plan> make_plan(const Spec& spec, Machine& machine, const Note& note) {
  Plan plan;
  plan.language = language();
  plan.snapshot = machine.look(false);
  plan.request = request_for_ranks(spec.job.request, spec.supervision, plan.snapshot);
  set_mig_only(plan.request, spec.isolation, plan.snapshot);
  if (auto entered = enter_allocation(spec, plan); !entered) return std::move(entered).error();
  auto placement = place_any(spec, machine, note, plan);
  if (!placement) return with_ranks_in_hint(std::move(placement).error(), spec.supervision);
  plan.placement = *std::move(placement);
  plan.environment =
      policy::environment_for(plan.placement, plan.snapshot, spec.variables, spec.environment);
  auto supervision = supervision_of(spec.supervision, plan.request, plan.placement, plan.snapshot,
                                    plan.environment);
  if (!supervision) return std::move(supervision).error();
  plan.supervision = *std::move(supervision);
  if (plan.supervision) {
    plan.supervision->quiet = spec.quiet;
    set_interface_for_gloo(spec, plan);
    if (plan.supervision->ranks.size() > plan.placement.devices.size() &&
        !plan.placement.devices.empty())
      note(text("ranks share GPUs; NCCL refuses that, so the program needs another backend (gloo)"),
           {});
    const auto scale = spec.variables.find("BERTH_BATCH_SCALE");
    plan.supervision->batch_scale = scale == spec.variables.end() ? 1 : parse_scale(scale->second);
  }
  if (plan.supervision && spec.supervision.preflight) {
    plan.supervision->preflight = run::preflight_command(spec.job.command);
    if (plan.supervision->preflight.empty() && !spec.dry_run)
      note(text("preflight skipped: the command is not Python"), {});
  }
  if (plan.supervision && spec.supervision.ranks && spec.supervision.ranks->least)
    plan.supervision->fewer = fewer_ranks(*spec.supervision.ranks, plan.placement, plan.snapshot,
                                          spec.variables, spec.environment);
  return plan;
}

std::vector<std::string> reasons_of(const Plan& plan) {
  if (language() == plan.language) return plan.placement.reasons;
  // place() writes the reasons in one language. For another language, place the job again.
  const auto again = place_planned(plan);
  return again ? again->reasons : plan.placement.reasons;
}

}  // namespace berth::job
