// `berth env`: prints the variables that `berth run` with the same options would set, for eval,
// .env files and containers. The plan is that of `berth run --dry-run`. stdout contains only the
// variables; the reasons go to stderr as comments.
#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/request_options.hpp"
#include "cli/verbs.hpp"
#include "inventory/observe.hpp"
#include "job/plan.hpp"
#include "output/environment_text.hpp"
#include "policy/container.hpp"

namespace berth::cli {
namespace {

std::string commented(const std::string& sentence) {
  std::string out = "# ";
  for (const char c : sentence) {
    out += c;
    if (c == '\n') out += "# ";
  }
  return out + "\n";
}

std::string comments(const model::Placement& placement, const model::Environment& environment) {
  std::string out;
  for (const std::string& reason : placement.reasons) out += commented(reason);
  for (const model::Setting& one : environment.settings)
    if (one.action == model::Setting::Action::kKeep)
      out += commented(one.name + "=" + printable(one.value) + "  " + one.why);
  // A variable cannot pin a job to CPU cores, so print the taskset command that does it.
  if (!environment.cpus.empty())
    out += commented(text("berth run would also pin the job to CPUs {0}: taskset -c {0} COMMAND",
                          environment.cpus));
  for (const std::string& note : environment.notes) out += commented(note);
  return out;
}

/// In a job of a cluster scheduler, the scheduler chooses the devices, so Berth's device options
/// have no effect.
Result<int> print_job(const Context& context, const model::Request& request) {
  const char* option = !request.devices.empty()           ? "--devices"
                       : request.all_gpus.value_or(false) ? "--gpus all"
                       : request.cpu_list                 ? "--cpus LIST"
                                                          : nullptr;
  if (option != nullptr)
    return Error{ErrorCode::kInvalidArgument, "E1038",
                 text("a cluster chooses nodes and devices itself: {} has no effect there", option),
                 "berth env --format k8s --gpus 1"};
  if (request.memory_bytes)
    context.err(
        commented(text("a share's size is set on the node: berth k8s device-plugin --shares N")));
  context.err(
      commented(text("fill in the image and the command, then run: kubectl create -f job.yaml")));
  context.out(output::kubernetes_job(request));
  return 0;
}

}  // namespace

Result<int> run_env(const Context& context) {
  const std::string asked = context.arguments.value("--format").value_or("");
  if (asked == "pip" || asked == "conda" || asked == "dockerfile") return print_recipe(context);
  for (const char* option : {"--framework", "--driver", "--gpu", "--compute-capability",
                             "--python-version", "--torch-index"})
    if (context.arguments.has(option))
      return Error{
          ErrorCode::kInvalidArgument, "E0830",
          text("{} is an option for recipes: it needs --format pip, conda or dockerfile", option),
          "berth env --format pip --framework torch"};
  const auto user = whole_environment();
  auto request = parse_request(context.arguments, user);
  if (!request) return request.error();
  request->verb = "env";
  if (asked == "k8s" && !context.json) return print_job(context, *request);

  if (auto checked = inventory::Sources::check_environment(); !checked)
    return std::move(checked).error();
  const job::Note note = [&](const std::string& sentence, const std::vector<std::string>& hints) {
    context.err(commented(sentence));
    for (const std::string& hint : hints) context.err(commented(text("hint: {}", hint)));
  };
  job::Spec spec;
  spec.job.request = *std::move(request);
  spec.variables = user;
  spec.environment = environment_options(context.arguments);
  spec.dry_run = true;
  // `false`: do not look for OpenCL devices, because no variable can select one.
  job::ThisMachine machine(false, note);
  auto plan = job::make_plan(spec, machine, note);
  if (!plan) return std::move(plan).error();
  const model::Environment& environment = plan->environment;

  const std::string format =
      context.json ? "json" : context.arguments.value("--format").value_or("shell");
  if (format == "json") {
    context.out(output::environment_json(environment, plan->placement, plan->snapshot));
    return 0;
  }
  context.err(comments(plan->placement, environment));
  if (format == "dotenv")
    context.out(output::environment_dotenv(environment));
  else if (format == "docker" || format == "cdi")
    context.out(output::environment_container(policy::container_words(
        environment, plan->placement, plan->snapshot,
        format == "cdi" ? policy::ContainerTool::kCdi : policy::ContainerTool::kDocker)));
  else
    context.out(output::environment_shell(environment));
  return 0;
}

}  // namespace berth::cli
