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

void outcome_field(JsonWriter& json, const std::optional<model::Outcome>& outcome) {
  json.key("outcome");
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

void fields(JsonWriter& json, const ShownJob& shown) {
  const model::Job& job = *shown.job;
  json.field("id", job.id);
  json.key("array");
  if (job.task) {
    json.open('{');
    json.field("id", job.task->array);
    json.field("index", job.task->index);
    json.field("at_most", job.task->at_most == 0 ? std::nullopt : std::optional(job.task->at_most));
    json.close('}');
  } else {
    json.value(nullptr);
  }
  json.field("uid", job.uid);
  json.text_field("user", job.user);
  json.field("state", model::name(job.state));
  json.field("gpus", job.request.gpus);
  json.field("memory_bytes", job.request.memory_bytes);
  json.field("share_permille", job.request.share_permille);
  json.field("cpus_wanted", job.request.cpus);
  json.field("queued", job.queued);
  json.field("priority", job.priority);
  seconds_field(json, "time_limit_seconds", job.time_limit);
  seconds_field(json, "or_cpu_after_seconds", job.or_cpu_after);
  json.field("after", job.after);
  json.field("requeue", job.requeue);
  json.field("restarts", job.restarts);
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
  });
  json.text_field("cpus", job.affinity);
  json.key("pids");
  json.open('[');
  for (const model::ProcessId& one : job.owners) json.value(one.pid);
  json.close(']');
  json.text_field("access", job.started_unix_milliseconds ? model::name(job.access) : "");
  outcome_field(json, job.outcome);
  if (!shown.whole) return;
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
  json.text_field("group", job.state == model::JobState::kRunning ? job.group : "");
  json.field("refusals", job.refusals);
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

std::string jobs_json(const std::vector<ShownJob>& shown, const std::vector<std::string>& elsewhere,
                      const std::vector<std::string>& drained) {
  JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.rows("jobs", shown, [&](const ShownJob& one) { fields(json, one); });
  json.field("elsewhere", elsewhere);
  json.field("drained", drained);
  json.close('}');
  return json.finish();
}

}  // namespace berth::output
