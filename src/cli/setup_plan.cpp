#include "cli/setup_plan.hpp"

#include <algorithm>
#include <set>

#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/on_system.hpp"

namespace berth::cli {
namespace {

using doctor::Clash;
using doctor::Framework;
using doctor::Platform;
using doctor::RecipeFormat;

/// The command that installs the driver on this distribution; "" if it is unknown.
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

RecipeFormat format_of(const SetupRequest& request) {
  if (request.format) return *doctor::setup_format_of(*request.format);
  return request.installer == Installer::kConda ? RecipeFormat::kConda : RecipeFormat::kPip;
}

/// The user's command, changed to request another release of one framework.
std::string with_release(const Arguments& given, const SetupRequest& request,
                         const AskedFramework& asked, const std::string& release) {
  std::vector<AskedFramework> frameworks = request.frameworks;
  for (AskedFramework& one : frameworks)
    if (one.framework == asked.framework) one.version = release;
  return command_with(given, frameworks, {});
}

/// Chooses the build of one framework. `cuda_major` is the required CUDA version, or 0 for any.
Result<SetupPart> plan_part(const Context& context, const SetupRequest& request,
                            const doctor::Facts& facts, const AskedFramework& asked,
                            int cuda_major) {
  const auto command = [&](std::initializer_list<std::string_view> without) {
    return command_with(context.arguments, request.frameworks, without);
  };
  const std::string release = doctor::beginning(asked.version);
  const bool by_version = request.installer != Installer::kPip || request.format;
  auto plan =
      plan_recipe(context, facts, asked.framework, format_of(request),
                  {command({"--driver", "--gpu", "--compute-capability", "--cpu", "--torch-index"}),
                   command({"--driver", "--gpu", "--compute-capability", "--cpu", "--torch-index",
                            "--python", "--uv"}) +
                       (request.installer == Installer::kUv ? " --uv" : "") + " --python ",
                   by_version ? nullptr : has_python},
                  release, cuda_major);
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
         "berth doctor\n" + command({}) + " --cpu"},
        facts);
  if (!release.empty() && !doctor::in_range(release, build.release))
    return Error{ErrorCode::kNotFound, "E0843",
                 text("no build of {} {} is known to run here, but a build of {} is",
                      doctor::name_of(asked.framework), asked.version, build.release),
                 with_release(context.arguments, request, asked, build.release)};
  if (plan->order.choice.is_unknown)
    return Error{ErrorCode::kNotFound, "E0834",
                 text("{} does not have this build", machine.index.named()),
                 command({"--torch-index"}) + " --torch-index URL"};
  SetupPart part{asked, *std::move(plan), {}};
  for (std::string package : part.plan.order.recipe.packages) {
    // The recipe pins a release, such as "==2.7.*". If the user requested an exact version such as
    // 2.7.1, pin that one.
    const std::size_t pin = package.find("==" + release + ".*");
    if (asked.version != release && !release.empty() && pin != std::string::npos)
      package.replace(pin, std::string::npos, "==" + asked.version);
    part.packages.push_back(std::move(package));
  }
  part.plan.order.recipe.packages = part.packages;
  return part;
}

struct Pair {
  std::size_t one = 0, other = 0;
  Clash clash = Clash::kNone;
};

Pair first_clash(const std::vector<SetupPart>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (std::size_t k = i + 1; k < parts.size(); ++k) {
      const auto build = [&](std::size_t n) { return parts[n].plan.order.recipe.build; };
      const Clash clash = doctor::clash_of(
          doctor::shipped_compatibility(), parts[i].asked.framework, build(i),
          parts[k].asked.framework, build(k), parts[i].plan.machine.wish.capabilities);
      if (clash != Clash::kNone) return {i, k, clash};
    }
  return {};
}

std::string named(const SetupPart& part) {
  const doctor::Build& build = part.plan.order.recipe.build;
  return text("{} {} for CUDA {}", doctor::name_of(part.asked.framework), build.release,
              build.cuda);
}

Error conflict(const Context& context, const SetupRequest& request,
               const std::vector<SetupPart>& parts, const Pair& pair) {
  const SetupPart& one = parts[pair.one];
  const SetupPart& other = parts[pair.other];
  std::string why = pair.clash == Clash::kCudaMajor
                        ? text("CUDA packages of two major versions overwrite each other's files")
                    : pair.clash == Clash::kCudnn
                        ? text("no release of cuDNN is compatible with both")
                        : text("they require different exact versions of the same CUDA packages");
  std::string hint;
  for (const SetupPart* part : {&one, &other}) {
    const AskedFramework& asked = part->asked;
    hint += (hint.empty() ? "" : "\n") +
            command_with(context.arguments, {asked}, {"--upgrade", "--conda", "--venv"}) +
            " --venv " + shell_word(request.folder + "-" + doctor::word_of(asked.framework));
  }
  return {ErrorCode::kNotFound, "E0847",
          text("{} and {} cannot be in one environment: {}", named(one), named(other), why),
          std::move(hint)};
}

Result<std::vector<SetupPart>> plan_parts(const Context& context, const SetupRequest& request,
                                          const doctor::Facts& facts, int cuda_major) {
  std::vector<SetupPart> parts;
  for (const AskedFramework& asked : request.frameworks) {
    auto part = plan_part(context, request, facts, asked, cuda_major);
    if (!part) return std::move(part).error();
    parts.push_back(*std::move(part));
  }
  return parts;
}

/// The newest builds of all frameworks, if they work in one environment. If not, the newest builds
/// that all need the same major CUDA version.
Result<std::vector<SetupPart>> compatible_parts(const Context& context, const SetupRequest& request,
                                                const doctor::Facts& facts) {
  auto parts = plan_parts(context, request, facts, 0);
  if (!parts) return parts;
  Pair pair = first_clash(*parts);
  if (pair.clash == Clash::kNone) return parts;
  std::set<int, std::greater<>> majors;
  for (const SetupPart& part : *parts)
    if (const auto version = doctor::version_of(part.plan.order.recipe.build.cuda);
        !version.empty())
      majors.insert(version[0]);
  for (const int major : majors) {
    auto others = plan_parts(context, request, facts, major);
    if (!others) continue;
    pair = first_clash(*others);
    if (pair.clash == Clash::kNone) return others;
    // Even with the same CUDA version, these builds do not work in one environment.
    parts = std::move(others);
  }
  return conflict(context, request, *parts, pair);
}

/// The installation steps. PyTorch has a step of its own, because its index has no other packages.
/// The step for the others repeats PyTorch's version, so that pip does not replace it.
std::vector<InstallStep> steps_of(const std::vector<SetupPart>& parts, const std::string& index) {
  std::vector<InstallStep> steps;
  InstallStep rest{{}, index};
  bool has_rest = false;
  for (const SetupPart& part : parts) {
    const std::string& own = part.plan.order.choice.url;
    if (!own.empty()) steps.push_back({part.packages, own});
    has_rest = has_rest || own.empty();
    rest.packages.insert(rest.packages.end(), part.packages.begin(), part.packages.end());
  }
  if (has_rest) steps.push_back(std::move(rest));
  return steps;
}

/// Packages to remove before an upgrade. pip would keep them although they do not work with the new
/// packages, or they share files with them.
std::vector<std::string> removed_by(const std::vector<SetupPart>& parts,
                                    const doctor::PythonFacts& python) {
  std::vector<std::string> removed;
  for (const doctor::Distribution& one : python.distributions.value_or({}))
    for (const SetupPart& part : parts) {
      const std::string& package = part.packages.front();
      const std::string name = package.substr(0, package.find_first_of("[="));
      const std::string& tag = part.plan.order.recipe.build.tag;
      const Framework framework = part.asked.framework;
      const bool is_other =
          (framework == Framework::kTorch && one.name == "torch" && !tag.empty() &&
           doctor::local_part(one.version) != tag && !part.plan.order.choice.url.empty()) ||
          (framework == Framework::kOnnxruntime && one.name.starts_with("onnxruntime") &&
           one.name != name && one.name != "onnxruntime-extensions" &&
           one.name != "onnxruntime-genai") ||
          (framework == Framework::kCupy && one.name != name &&
           (one.name == "cupy" || one.name.starts_with("cupy-cuda") ||
            one.name.starts_with("cupy-rocm")));
      if (is_other) removed.push_back(one.name);
    }
  return removed;
}

/// The index to pass to uv, which does not read pip's configuration; "" if none is needed.
std::string index_for(const Context& context, const SetupRequest& request,
                      const doctor::Facts& facts, std::vector<std::string>& notes) {
  if (const auto given = context.arguments.value("--index")) return *given;
  const auto& pip = facts.packages.pip;
  if (request.installer != Installer::kUv || facts.packages.uv.main || !pip.main) return "";
  if (!pip.main->has_secret) return pip.main->url;
  notes.push_back(text("uv does not read pip's index and its password ({}): set UV_DEFAULT_INDEX",
                       pip.main->from));
  return "";
}

/// uv creates environments without pip, so only uv can upgrade them.
Status check_pip(const Context& context, const SetupRequest& request,
                 const doctor::PythonFacts& python) {
  if (!request.is_upgrade || request.installer == Installer::kUv || !python.distributions)
    return Done{};
  for (const doctor::Distribution& one : *python.distributions)
    if (one.name == "pip") return Done{};
  const std::string hint =
      request.installer == Installer::kConda
          ? shell_word(request.program) + " install --prefix " + shell_word(request.folder) + " pip"
          : command_with(context.arguments, request.frameworks, {}) + " --uv\n" +
                shell_word(request.folder + "/bin/python") + " -m ensurepip";
  return Error{
      ErrorCode::kInvalidArgument, "E0967",
      text("{} has no pip, which is needed to change its packages", printable(request.folder)),
      hint};
}

}  // namespace

Result<SetupPlan> plan_setup(const Context& context, const SetupRequest& request,
                             const doctor::Facts& facts) {
  if (auto fit = check_pip(context, request, facts.python); !fit) return fit.error();
  auto parts = compatible_parts(context, request, facts);
  if (!parts) return std::move(parts).error();
  SetupPlan plan;
  plan.parts = *std::move(parts);
  for (const SetupPart& part : plan.parts)
    for (const std::string& reason : part.plan.order.reasons)
      if (std::find(plan.reasons.begin(), plan.reasons.end(), reason) == plan.reasons.end())
        plan.reasons.push_back(reason);
  SetupEnvironment& environment = plan.environment;
  environment.installer = request.installer;
  environment.program = request.program;
  environment.folder = request.folder;
  environment.is_upgrade = request.is_upgrade;
  environment.python = facts.python.interpreter.value_or("");
  if (request.installer == Installer::kUv && !request.python_version.empty())
    environment.python = request.python_version;
  environment.python_version = plan.parts.front().plan.order.python;
  environment.steps = steps_of(plan.parts, index_for(context, request, facts, plan.notes));
  if (request.is_upgrade) environment.removed = removed_by(plan.parts, facts.python);
  return plan;
}

std::string shown_command(const std::vector<std::string>& words) {
  std::string line;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_address = i > 0 && words[i - 1] == "--index-url";
    const std::string word = is_address ? doctor::index_address(words[i], "").url : words[i];
    line += (line.empty() ? "" : " ") + shell_word(printable(word));
  }
  return line;
}

}  // namespace berth::cli
