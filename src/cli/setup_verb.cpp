// `berth setup FRAMEWORK…`: creates or upgrades a Python environment with builds that suit this
// machine, and runs a computation with each framework. If this is impossible, reports the first
// obstacle.
#include <algorithm>
#include <map>

#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "cli/setup_plan.hpp"
#include "cli/setup_trial.hpp"
#include "cli/verbs.hpp"
#include "doctor/read/collectors.hpp"
#include "doctor/read/process.hpp"
#include "inventory/observe.hpp"
#include "output/json_writer.hpp"

namespace berth::cli {
namespace {

/// A package that an upgrade adds, removes or replaces.
struct Change {
  std::string package, before, after;  // versions; "" if the package is not installed
};

std::map<std::string, std::string> packages_in(const std::string& folder) {
  const doctor::PythonFacts python =
      doctor::collect_python(doctor::Tree("/"), doctor::own_environment(), folder + "/bin/python");
  std::map<std::string, std::string> versions;
  for (const doctor::Distribution& one : python.distributions.value_or({}))
    // Ignore packages outside the folder, which the upgrade does not change.
    if (one.path.starts_with(folder + "/")) versions.emplace(one.name, one.version);
  return versions;
}

std::vector<Change> changes_between(const std::string& old_folder, const std::string& new_folder) {
  const auto before = packages_in(old_folder);
  const auto after = packages_in(new_folder);
  std::vector<Change> changes;
  const auto version = [](const auto& all, const std::string& name) {
    const auto found = all.find(name);
    return found == all.end() ? std::string() : found->second;
  };
  auto names = before;
  names.insert(after.begin(), after.end());
  for (const auto& [name, ignored] : names)
    if (version(before, name) != version(after, name))
      changes.push_back({name, version(before, name), version(after, name)});
  return changes;
}

std::string said(const Change& change) {
  if (change.before.empty()) return "+ " + change.package + " " + change.after;
  if (change.after.empty()) return "- " + change.package + " " + change.before;
  return "~ " + change.package + " " + change.before + " -> " + change.after;
}

struct Report {
  std::string state = "planned";  // later "done" or "failed"
  std::vector<TrialResult> results;
  std::vector<Change> changes;
};

const TrialResult* result_of(const Report& report, doctor::Framework framework) {
  for (const TrialResult& one : report.results)
    if (one.framework == framework) return &one;
  return nullptr;
}

void write_result(output::JsonWriter& json, const TrialResult* result) {
  json.text_field("version", result == nullptr ? "" : result->version);
  json.text_field("state", result == nullptr ? "" : result->state);
  json.field("devices", result == nullptr ? std::nullopt : result->devices);
  json.text_field("says", result == nullptr ? "" : result->says);
  json.text_field("hint", result == nullptr ? "" : result->hint);
}

void write_json(const Context& context, const SetupRequest& request, const SetupPlan& plan,
                const Report& report) {
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("environment", request.folder);
  json.field("installer", word_of(request.installer));
  if (request.is_check)
    json.rows("frameworks", report.results, [&](const TrialResult& result) {
      json.field("framework", doctor::word_of(result.framework));
      json.field("release", nullptr);
      json.field("cuda", nullptr);
      json.field("packages", std::vector<std::string>{});
      write_result(json, &result);
    });
  else
    json.rows("frameworks", plan.parts, [&](const SetupPart& part) {
      const doctor::Build& build = part.plan.order.recipe.build;
      json.field("framework", doctor::word_of(part.asked.framework));
      json.field("release", build.release);
      json.text_field("cuda", build.cuda);
      json.field("packages", part.packages);
      write_result(json, result_of(report, part.asked.framework));
    });
  std::vector<std::string> commands;
  if (!request.is_check && !request.format)
    for (const auto& words : commands_for(plan.environment, request.folder))
      commands.push_back(shown_command(words));
  json.field("commands", commands);
  json.rows("changes", report.changes, [&](const Change& change) {
    json.field("package", change.package);
    json.text_field("before", change.before);
    json.text_field("after", change.after);
  });
  json.field("reasons", plan.reasons);
  json.field("state", report.state);
  json.close('}');
  context.out(json.finish());
}

/// Prints the results. Returns exit code 1 if a framework did not run.
int finish(const Context& context, const SetupRequest& request, const SetupPlan& plan,
           Report report) {
  const bool failed = std::any_of(report.results.begin(), report.results.end(),
                                  [](const TrialResult& one) { return one.state == "failed"; });
  report.state = failed ? "failed" : "done";
  if (context.json) {
    write_json(context, request, plan, report);
    return failed ? 1 : 0;
  }
  if (!failed && !request.is_check)
    context.err((request.installer == Installer::kConda ? "conda activate " : ". ") +
                shell_word(request.folder +
                           (request.installer == Installer::kConda ? "" : "/bin/activate")) +
                "\n");
  for (const TrialResult& one : report.results) {
    context.out(printable(one.says) + "\n");
    if (!one.hint.empty()) context.err(text("fix: {}", one.hint) + "\n");
  }
  return failed ? 1 : 0;
}

Result<int> check(const Context& context, const SetupRequest& request) {
  std::vector<TriedFramework> tried = frameworks_in(request.python);
  if (!request.frameworks.empty())
    std::erase_if(tried, [&](const TriedFramework& one) {
      return std::none_of(
          request.frameworks.begin(), request.frameworks.end(),
          [&](const AskedFramework& asked) { return asked.framework == one.framework; });
    });
  if (tried.empty())
    return Error{ErrorCode::kInvalidArgument, "E0848",
                 request.frameworks.empty()
                     ? text("{} contains none of these: {}", printable(request.folder),
                            doctor::framework_words())
                     : text("{} has no {}", printable(request.folder),
                            doctor::name_of(request.frameworks[0].framework)),
                 command_with(context.arguments, request.frameworks,
                              {"--check", "--conda", "--venv", "--python"}) +
                     " --upgrade --venv " + shell_word(request.folder)};
  Report report;
  report.results = try_frameworks(context, request.python, request.folder, tried);
  return finish(context, request, {}, std::move(report));
}

int print_file(const Context& context, const SetupRequest& request, const SetupPlan& plan) {
  std::vector<doctor::RecipeOrder> orders;
  for (const SetupPart& part : plan.parts) orders.push_back(part.plan.order);
  const std::string file = doctor::recipe_text(*doctor::setup_format_of(*request.format), orders);
  if (!context.json) {
    context.out(file);
    return 0;
  }
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("format", *request.format);
  json.field("text", file);
  json.close('}');
  context.out(json.finish());
  return 0;
}

/// Runs the installation. For an upgrade, shows the changes before the new environment replaces the
/// old one.
Status install(const Context& context, const SetupRequest& request, const SetupPlan& plan,
               Report& report) {
  SetupSteps steps;
  steps.before = [&](const std::vector<std::string>& words) {
    context.err("$ " + shown_command(words) + "\n");
  };
  steps.may_replace = [&](const std::string& made) {
    report.changes = changes_between(request.folder, made);
    if (!context.json)
      for (const Change& change : report.changes) context.out(printable(said(change)) + "\n");
    if (report.changes.empty() && !context.json)
      context.out(text("there is nothing to change in {}", printable(request.folder)) + "\n");
    return !request.is_dry && !report.changes.empty();
  };
  return make_environment(plan.environment, steps);
}

}  // namespace

Result<int> run_setup(const Context& context) {
  const auto request = read_setup_request(context);
  if (!request) return request.error();
  if (auto checked = inventory::Sources::check_environment(); !checked)
    return std::move(checked).error();
  if (request->is_check) return check(context, *request);
  const bool only_prints = request->format || (request->is_dry && !request->is_upgrade);
  if (!only_prints)
    if (const auto fit =
            request->is_upgrade ? check_existing(request->folder) : check_place(request->folder);
        !fit)
      return fit.error();
  const auto facts = facts_for_setup(context, *request);
  if (!facts) return facts.error();
  const auto plan = plan_setup(context, *request, *facts);
  if (!plan) return plan.error();
  if (request->format) return print_file(context, *request, *plan);
  Report report;
  if (!context.json || !only_prints)
    for (const auto& list : {plan->reasons, plan->notes})
      for (const std::string& line : list) context.err("# " + printable(line) + "\n");
  if (!only_prints)
    if (const auto made = install(context, *request, *plan, report); !made) return made.error();
  if (request->is_dry) {
    if (context.json)
      write_json(context, *request, *plan, report);
    else if (only_prints)
      for (const auto& words : commands_for(plan->environment, request->folder))
        context.out(shown_command(words) + "\n");
    return 0;
  }
  std::vector<TriedFramework> tried;
  for (const SetupPart& part : plan->parts)
    tried.push_back({part.asked.framework,
                     part.plan.machine.wish.platform == doctor::Platform::kCpu,
                     part.plan.order.recipe.build.release});
  report.results = try_frameworks(context, request->folder + "/bin/python", request->folder, tried);
  return finish(context, *request, *plan, std::move(report));
}

}  // namespace berth::cli
