// `berth setup FRAMEWORK`: creates a virtual environment with the right build for this machine and
// runs a kernel in it, or reports the first obstacle.
#include <filesystem>

#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "cli/recipe_plan.hpp"
#include "cli/setup_environment.hpp"
#include "cli/verbs.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/read/collect.hpp"
#include "doctor/read/collectors.hpp"
#include "doctor/read/place.hpp"
#include "doctor/read/probe.hpp"
#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/on_system.hpp"
#include "inventory/observe.hpp"
#include "output/json_writer.hpp"

namespace berth::cli {
namespace {

using doctor::Framework;
using doctor::Platform;
using doctor::ProbeState;

constexpr const char* kExample = "berth setup torch";

Error wrong(std::string message) {
  return {ErrorCode::kInvalidArgument, "E0840", std::move(message), kExample};
}

struct Asked {
  Framework framework = Framework::kTorch;
  std::string version;  // "": the newest possible
  std::string folder;   // absolute
};

Result<Asked> read_words(const Arguments& given) {
  if (given.positional.empty())
    return wrong(text("which framework? {}", "torch, tensorflow, jax, cupy"));
  Asked asked;
  const auto framework = doctor::framework_of(given.positional[0]);
  if (!framework)
    return wrong(
        text("'{}' is none of {}", printable(given.positional[0]), "torch, tensorflow, jax, cupy"));
  asked.framework = *framework;
  if (given.positional.size() > 2) return wrong(text("one framework and one version at a time"));
  if (given.positional.size() == 2) {
    asked.version = given.positional[1];
    if (doctor::framework_of(asked.version))
      return wrong(text("one framework and one version at a time"));
    if (doctor::version_of(asked.version).size() < 2 || asked.version.size() > 20 ||
        asked.version.find_first_not_of("0123456789.") != std::string::npos)
      return wrong(text("'{}' is not a version such as {}", printable(asked.version), "2.7"));
  }
  for (const char* option : {"--venv", "--python", "--index", "--torch-index"})
    if (const auto value = given.value(option); value && value->empty())
      return wrong(text("{} is empty", option));
  if (given.has("--cpu"))
    for (const char* option : {"--gpu", "--driver", "--compute-capability"})
      if (given.has(option)) return contradiction("--cpu", option);
  std::error_code problem;
  asked.folder = std::filesystem::absolute(given.value("--venv").value_or(".venv"), problem)
                     .lexically_normal()
                     .string();
  while (asked.folder.size() > 1 && asked.folder.ends_with('/')) asked.folder.pop_back();
  return asked;
}

/// Looks up a name without a folder in PATH.
std::string python_path(const doctor::Sources& sources, const std::string& word) {
  std::error_code ignored;
  if (word.find('/') != std::string::npos)
    return std::filesystem::absolute(word, ignored).lexically_normal().string();
  const std::string path = doctor::variable(sources.process.environment, "PATH");
  for (const std::string_view folder : split(path, ':'))
    if (const std::string file = std::string(folder) + "/" + word;
        folder.starts_with('/') && sources.tree.exists(file))
      return file;
  return word;
}

Result<doctor::Facts> look_around(const Arguments& given) {
  doctor::Sources sources = doctor::this_machine(doctor::Depth::kLive);
  if (const auto word = given.value("--python")) {
    sources.python = python_path(sources, *word);
    if (const std::string why = doctor::why_no_python(sources.tree, sources.python, false);
        !why.empty())
      return Error{ErrorCode::kInvalidArgument, "E0846", why, "berth setup torch --python python3"};
  }
  doctor::Facts facts = doctor::collect(sources);
  if (!facts.python.interpreter)
    return Error{ErrorCode::kInvalidArgument, "E0846", text("there is no Python to make it with"),
                 "berth setup torch --python PATH"};
  // pip installs, even if uv manages the original Python.
  facts.python.has_uv = false;
  if (const auto url = given.value("--index")) {
    facts.packages.pip = {};
    facts.packages.pip.main = doctor::index_address(*url, "--index");
  }
  return facts;
}

/// The distribution's command to install the driver; "": unknown.
std::string driver_command(const doctor::Facts& facts) {
  const doctor::Knowledge knowledge;
  doctor::Examination look(facts, knowledge, model::Severity::kInfo);
  return doctor::on_system(look, "driver", "").command;
}

Error with_driver_command(Error error, const doctor::Facts& facts) {
  if (const std::string command = driver_command(facts); !command.empty())
    error.hint = command + (error.hint.empty() ? "" : "\n" + error.hint);
  return error;
}

struct Setup {
  Asked asked;
  RecipePlan plan;
  NewEnvironment environment;
  bool has_gpu = false;  // it is a GPU build
};

Result<Setup> plan_setup(const Context& context, const Asked& asked, const doctor::Facts& facts) {
  const std::string command = std::string("berth setup ") + doctor::word_of(asked.framework);
  const std::string release = doctor::beginning(asked.version);
  auto plan = plan_recipe(context, facts, asked.framework, doctor::RecipeFormat::kPip,
                          {command, "--python python"}, release);
  const bool is_here = !context.arguments.has("--gpu") && !context.arguments.has("--driver") &&
                       !context.arguments.has("--compute-capability");
  if (!plan) {
    Error error = std::move(plan).error();
    return is_here && error.id == "E0831" ? with_driver_command(std::move(error), facts) : error;
  }
  const doctor::RecipeMachine& machine = plan->machine;
  const doctor::Build& build = plan->order.recipe.build;
  if (is_here && machine.wish.platform == Platform::kNvidia && machine.wish.driver.empty() &&
      machine.wish.driver_cuda.empty())
    return with_driver_command(
        {ErrorCode::kNoDevice, "E0844", text("there is an NVIDIA GPU, but no driver answers"),
         "berth doctor\n" + command + " --cpu"},
        facts);
  if (!release.empty() && !doctor::in_range(release, build.release))
    return Error{ErrorCode::kNotFound, "E0843",
                 text("no build of {} {} is known to run here; {} does",
                      doctor::name_of(asked.framework), asked.version, build.release),
                 command + " " + build.release};
  if (plan->order.choice.is_unknown)
    return Error{ErrorCode::kNotFound, "E0834",
                 text("{} does not have this build", machine.index.named()),
                 command + " --torch-index URL"};
  Setup setup{asked, *std::move(plan), {}, machine.wish.platform != Platform::kCpu};
  setup.environment.python = *facts.python.interpreter;
  setup.environment.folder = asked.folder;
  for (std::string package : setup.plan.order.recipe.packages) {
    // "torch==2.7.*", if 2.7.1 was requested.
    const std::string any = "==" + release + ".*";
    if (asked.version != release && package.ends_with(any))
      package.replace(package.size() - any.size(), any.size(), "==" + asked.version);
    setup.environment.install.push_back(package);
  }
  const std::string& own = setup.plan.order.choice.url;
  const std::string url = own.empty() ? context.arguments.value("--index").value_or("") : own;
  if (!url.empty()) {
    setup.environment.install.emplace_back("--index-url");
    setup.environment.install.push_back(url);
  }
  return setup;
}

/// As typed in a shell; without passwords in addresses.
std::string shown(const std::vector<std::string>& words) {
  std::string line;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_address = i > 0 && words[i - 1] == "--index-url";
    const std::string word = is_address ? doctor::index_address(words[i], "").url : words[i];
    line += (line.empty() ? "" : " ") + shell_word(printable(word));
  }
  return line;
}

struct Outcome {
  std::string state;  // "planned", "ran", "ran_on_cpu", "failed"
  std::string version, says, hint;
  std::optional<std::size_t> devices;
};

void write_json(const Context& context, const Setup& setup, const Outcome& outcome) {
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("framework", doctor::word_of(setup.asked.framework));
  json.field("release", setup.plan.order.recipe.build.release);
  json.text_field("cuda", setup.plan.order.recipe.build.cuda);
  json.field("environment", setup.asked.folder);
  json.field("packages", setup.plan.order.recipe.packages);
  std::vector<std::string> commands;
  for (const auto& words : commands_for(setup.environment, setup.asked.folder))
    commands.push_back(shown(words));
  json.field("commands", commands);
  json.field("reasons", setup.plan.order.reasons);
  json.field("state", outcome.state);
  json.text_field("version", outcome.version);
  json.field("devices", outcome.devices);
  json.text_field("says", outcome.says);
  json.text_field("hint", outcome.hint);
  json.close('}');
  context.out(json.finish());
}

/// A small computation on the CPU with the framework.
std::string computation(Framework framework) {
  switch (framework) {
    case Framework::kTorch:
      return "import torch; assert float((torch.ones(64) * 2).sum()) == 128";
    case Framework::kTensorflow:
      return "import tensorflow as tf; assert float(tf.reduce_sum(tf.ones(64) * 2)) == 128";
    case Framework::kJax:
      return "import jax.numpy as np; assert float((np.ones(64) * 2).sum()) == 128";
    case Framework::kCupy:
      break;
  }
  return "import cupy; assert float((cupy.ones(64) * 2).sum()) == 128";
}

/// The first cause that `berth doctor --deep` finds.
Outcome first_cause(const Setup& setup, const doctor::Sources& sources,
                    const doctor::ProbeAnswer* answer) {
  Outcome outcome{"failed", answer == nullptr ? "" : answer->version, "", "", {}};
  const model::Diagnosis diagnosis =
      doctor::diagnose(doctor::collect(sources), {}, {}, sources.request);
  for (const model::Finding& finding : diagnosis.findings) {
    if (finding.severity < model::Severity::kError) continue;
    outcome.says = finding.title;
    if (!finding.fix.empty())
      outcome.hint = finding.fix[0].command.empty() ? finding.fix[0].says : finding.fix[0].command;
    break;
  }
  if (outcome.says.empty())
    outcome.says =
        text("{} is installed, but no kernel ran{}", doctor::name_of(setup.asked.framework),
             answer == nullptr || answer->message.empty() ? "" : ": " + answer->message);
  if (outcome.hint.empty())
    outcome.hint = "berth doctor --deep --venv " + shell_word(setup.asked.folder);
  return outcome;
}

Outcome try_it(const Context& context, const Setup& setup) {
  const std::string python = setup.asked.folder + "/bin/python";
  const std::string name = doctor::name_of(setup.asked.framework);
  doctor::Sources sources = doctor::this_machine(doctor::Depth::kLive);
  sources.python = python;
  doctor::ProbeOptions options;
  options.on_slow = [&](const std::string& names) {
    context.err(text("trying to run a kernel with {}: at most {} s", names, 15) + "\n");
  };
  sources.request.probe = doctor::probe_target(sources, options);
  const doctor::ProbeAnswer* answer = nullptr;
  if (sources.request.probe)
    for (const doctor::ProbeAnswer& one : *sources.request.probe)
      if (one.framework == doctor::word_of(setup.asked.framework)) answer = &one;
  const std::string version = answer == nullptr || answer->version.empty()
                                  ? setup.plan.order.recipe.build.release
                                  : answer->version;
  if (answer != nullptr && answer->state == ProbeState::kRan) {
    const auto count = answer->devices.size();
    return {
        "ran", version,
        text_n("{1} {2} sees {0} GPU; a kernel ran", "{1} {2} sees {0} GPUs; a kernel ran on each",
               static_cast<long long>(count), name, version),
        "", count};
  }
  const bool on_cpu = answer != nullptr && (answer->state == ProbeState::kCpuBuild ||
                                            answer->state == ProbeState::kNoDevice);
  if (!setup.has_gpu && on_cpu &&
      run_program({python, "-c", computation(setup.asked.framework)}) == 0)
    return {"ran_on_cpu", version, text("{} {} on the CPU; a kernel ran", name, version), "", 0};
  return first_cause(setup, sources, answer);
}

}  // namespace

Result<int> run_setup(const Context& context) {
  const auto asked = read_words(context.arguments);
  if (!asked) return asked.error();
  if (auto checked = inventory::Sources::check_environment(); !checked)
    return std::move(checked).error();
  const bool dry = context.arguments.has("--dry-run");
  if (const auto fit = check_place(asked->folder); !fit && !dry) return fit.error();
  const auto facts = look_around(context.arguments);
  if (!facts) return facts.error();
  const auto setup = plan_setup(context, *asked, *facts);
  if (!setup) return setup.error();
  if (dry && context.json) {
    write_json(context, *setup, {"planned", "", "", "", {}});
    return 0;
  }
  for (const std::string& reason : setup->plan.order.reasons)
    context.err("# " + printable(reason) + "\n");
  if (dry) {
    for (const auto& words : commands_for(setup->environment, asked->folder))
      context.out(shown(words) + "\n");
    return 0;
  }
  const auto made = make_environment(
      setup->environment,
      [&](const std::vector<std::string>& words) { context.err("$ " + shown(words) + "\n"); });
  if (!made) return made.error();
  const Outcome outcome = try_it(context, *setup);
  if (context.json) {
    write_json(context, *setup, outcome);
  } else {
    context.out(printable(outcome.says) + "\n");
    if (!outcome.hint.empty()) context.err(text("fix: {}", outcome.hint) + "\n");
    if (outcome.state != "failed")
      context.err(". " + shell_word(asked->folder + "/bin/activate") + "\n");
  }
  return outcome.state == "failed" ? 1 : 0;
}

}  // namespace berth::cli
