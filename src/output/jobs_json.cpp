#include "output/jobs_json.hpp"

#include "output/json_writer.hpp"
#include "output/words.hpp"

namespace berth::output {
namespace {

void time_field(JsonWriter& json, std::string_view name,
                const std::optional<std::int64_t>& unix_milliseconds) {
  json.text_field(name, unix_milliseconds ? show_time(*unix_milliseconds) : "");
}

void seconds_field(JsonWriter& json, std::string_view name,
                   const std::optional<std::chrono::milliseconds>& duration) {
  json.key(name);
  duration ? json.value(static_cast<double>(duration->count()) / 1000.0) : json.value(nullptr);
}

void outcome_field(JsonWriter& json, std::string_view name,
                   const std::optional<model::Outcome>& outcome) {
  json.key(name);
  if (!outcome) {
    json.value(nullptr);
    return;
  }
  json.open('{');
  json.field("class", model::name(outcome->kind));
  json.field("exit_code", outcome->exit_code);
  json.field("signal", outcome->signal);
  json.close('}');
}

/// The number of GPUs times the run time; nullopt while the job runs.
std::optional<std::chrono::milliseconds> gpu_time(const model::Job& job) {
  if (!job.started_unix_milliseconds || !job.ended_unix_milliseconds) return std::nullopt;
  return std::chrono::milliseconds((*job.ended_unix_milliseconds - *job.started_unix_milliseconds) *
                                   static_cast<std::int64_t>(job.grants.size()));
}

/// Writes the fields that only the job's user and administrators may see: texts that the user
/// wrote, and paths.
void private_fields(JsonWriter& json, const ShownJob& shown) {
  const model::Job& job = *shown.job;
  json.text_field("name", job.name);
  json.field("command", job.command);
  json.field("devices_wanted", job.request.devices);
  json.key("visible");
  json.open('{');
  for (const model::InheritedVariable& one : model::kInherited)
    if (const auto& value = job.request.*one.value) json.field(one.key, *value);
  json.close('}');
  json.text_field("why", job.why);
  json.text_field("log", shown.log);
  json.text_field("on_end", job.on_end);
  json.field("notify", job.notify);
  json.text_field("group", job.state == model::JobState::kRunning ? job.group : "");
  json.field("refusals", job.refusals);
}

void ending_fields(JsonWriter& json, const model::Job& job) {
  seconds_field(json, "grace_seconds", job.grace.value_or(model::kDefaultGrace));
  json.text_field("signal", job.warning ? model::warning_name(job.warning->signal) : "");
  seconds_field(json, "signal_before_seconds",
                job.warning ? std::optional(job.warning->before) : std::nullopt);
  json.field("signal_at_any_end", job.warning && job.warning->at_any_end);
  json.text_field("told_to_end", job.told_to_end ? model::name(job.told_to_end->state) : "");
}

void fields(JsonWriter& json, const ShownJob& shown) {
  const model::Job& job = *shown.job;
  json.field("id", job.id);
  json.key("array");
  if (job.task) {
    json.open('{');
    json.field("id", job.task->array);
    json.field("index", job.task->index);
    json.field("at_most", job.task->at_most == 0 ? std::nullopt : std::optional(job.task->at_most));
    json.text_field("alike", shown.alike);
    json.close('}');
  } else {
    json.value(nullptr);
  }
  json.field("uid", job.uid);
  json.text_field("user", job.user);
  json.field("state", model::name(job.state));
  json.field("gpus", job.request.gpus);
  json.field("gpus_most", job.request.gpus_most);
  json.field("memory_bytes", job.request.memory_bytes);
  json.field("share_permille", job.request.share_permille);
  json.field("cap_permille", job.request.turns.cap_permille);
  json.text_field("turns", word_of(job.request.turns));
  json.field("slice_milliseconds", job.request.turns.slice_milliseconds);
  json.field("cpus_wanted", job.request.cpus);
  json.field("queued", job.queued);
  json.field("priority", job.priority);
  seconds_field(json, "time_limit_seconds", job.time_limit);
  seconds_field(json, "or_cpu_after_seconds", job.or_cpu_after);
  ending_fields(json, job);
  json.field("after", job.after);
  json.field("after_any", job.after_any);
  json.field("after_not_ok", job.after_not_ok);
  json.field("requeue", job.requeue);
  json.field("restarts", job.restarts);
  json.field("preemptible", job.preemptible);
  json.field("preemptions", job.preemptions);
  json.field("retries", job.retries);
  json.field("avoids", job.avoids);
  seconds_field(json, "pause_seconds",
                job.pause.count() == 0 ? std::nullopt : std::optional(job.pause));
  seconds_field(json, "ran_before_seconds", job.ran_before);
  time_field(json, "submitted", job.submitted_unix_milliseconds);
  time_field(json, "requeued", job.requeued_unix_milliseconds);
  time_field(json, "started", job.started_unix_milliseconds);
  time_field(json, "ended", job.ended_unix_milliseconds);
  json.rows("devices", job.grants, [&](const model::Grant& grant) {
    json.field("uuid", grant.unit);
    json.key("memory_bytes");
    grant.memory_bytes == 0 ? json.value(nullptr) : json.value(grant.memory_bytes);
    json.key("share_permille");
    grant.share_permille == 0 ? json.value(nullptr) : json.value(grant.share_permille);
    json.field("made", grant.made);
  });
  json.text_field("cpus", job.affinity);
  json.key("pids");
  json.open('[');
  for (const model::ProcessId& one : job.owners) json.value(one.pid);
  json.close(']');
  json.text_field("access", job.started_unix_milliseconds ? model::name(job.access) : "");
  outcome_field(json, "outcome", job.outcome);
  outcome_field(json, "last_outcome", job.last_outcome);
  seconds_field(json, "cpu_seconds", job.usage.cpu);
  seconds_field(json, "gpu_seconds", gpu_time(job));
  json.field("peak_memory_bytes", job.usage.peak_memory_bytes);
  json.text_field("ended_by", job.ended_by);
  if (shown.whole) private_fields(json, shown);
}

}  // namespace

std::string outlook_json(const JobOutlook& outlook) {
  JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("obstruction", outlook.obstruction);
  json.field("before", outlook.before);
  time_field(json, "fits_at", outlook.fits_at);
  json.rows("releases", outlook.releases, [&](const JobOutlook::Release& one) {
    json.field("job", one.job);
    time_field(json, "at", one.unix_milliseconds);
    json.field("by_limit", one.by_limit);
  });
  json.close('}');
  return json.finish();
}

std::string job_json(const ShownJob& shown) {
  JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.key("job");
  json.open('{');
  fields(json, shown);
  json.close('}');
  json.close('}');
  return json.finish();
}

std::string array_json(model::JobId array, const std::vector<ShownJob>& shown) {
  JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("array", array);
  json.rows("jobs", shown, [&](const ShownJob& one) { fields(json, one); });
  json.close('}');
  return json.finish();
}

std::string jobs_json(const std::vector<ShownJob>& shown, const model::ClosedUnits& closed,
                      std::size_t not_shown, const std::vector<Error>& notices) {
  JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.rows("jobs", shown, [&](const ShownJob& one) { fields(json, one); });
  json.field("elsewhere", closed.elsewhere);
  json.field("drained", closed.drained);
  json.rows("lent", closed.lent, [&](const auto& one) {
    json.field("unit", one.unit);
    json.field("to", one.to);
  });
  json.rows("aside", closed.aside, [&](const auto& one) {
    json.field("unit", one.unit);
    json.field("job", one.job);
    json.text_field("user", one.user);
    json.text_field("number", one.number);
    json.key("pids");
    json.open('[');
    for (const auto& [pid, ticks] : one.processes) json.value(pid);
    json.close(']');
  });
  json.rows("notices", notices, [&](const Error& one) {
    json.field("id", one.id);
    json.field("message", one.message);
    json.field("hint", one.hint);
  });
  json.field("not_shown", not_shown);
  json.close('}');
  return json.finish();
}

}  // namespace berth::output
