// `berth env --format pip|conda|dockerfile`: prints how to install a framework on this machine, or
// on the machine that the options describe. If no build is known to work there, says what prevents
// it and what to change.
#include <algorithm>
#include <array>
#include <utility>

#include "base/file.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "cli/recipe_plan.hpp"
#include "cli/verbs.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/read/collect.hpp"
#include "inventory/observe.hpp"
#include "output/json_writer.hpp"

namespace berth::cli {
namespace {

using doctor::Changes;
using doctor::Framework;
using doctor::Platform;
using doctor::RecipeFormat;
using doctor::RecipeMachine;
using doctor::Wish;

Error wrong(std::string message, std::string hint) {
  return {ErrorCode::kInvalidArgument, "E0830", std::move(message), std::move(hint)};
}

constexpr const char* kExample = "berth env --format pip --framework torch";

Status check_options(const Context& context, Framework& framework) {
  const Arguments& given = context.arguments;
  const auto word = given.value("--framework");
  if (!word)
    return wrong(text("--format {} needs one framework: --framework", *given.value("--format")),
                 kExample);
  framework = *doctor::framework_of(*word);
  for (const char* option : {"--devices", "--memory", "--cpus", "--override", "--quiet"})
    if (given.has(option)) return wrong(text("{} cannot be used with a recipe", option), kExample);
  if (const auto gpus = given.value("--gpus"); gpus && *gpus != "0" && *gpus != "none")
    return wrong(text("a recipe cannot be limited to some GPUs: omit --gpus, or use --gpus 0 for a "
                      "recipe without GPUs"),
                 kExample);
  const bool cpu = given.has("--cpu") || given.has("--gpus");
  for (const char* option : {"--driver", "--gpu", "--compute-capability"})
    if (cpu && given.has(option))
      return wrong(text("{} describes a GPU, but the recipe is for the CPU", option), kExample);
  return Done{};
}

Result<std::string> version(const Context& context, const char* option, std::size_t fewest,
                            const char* like) {
  const auto word = context.arguments.value(option);
  if (!word) return std::string();
  const auto parts = doctor::version_of(*word);
  if (parts.size() < fewest || word->find_first_not_of("0123456789.") != std::string::npos ||
      word->size() > 20)
    return Error{ErrorCode::kInvalidArgument, "E0835",
                 text("{}: '{}' is not a version such as {}", option, printable(*word), like),
                 std::string(option) + " " + like};
  return *word;
}

/// The highest version of this driver branch: "550.54.999" for "550.54".
std::string newest_of(const std::string& driver) {
  return doctor::version_of(driver).size() < 3 ? driver + ".999" : driver;
}

/// Splits a value into names. "RTX 5090, GTX 1080 Ti" and "RTX 3090 and K80" contain two names
/// each.
std::vector<std::string> names_in(const std::string& value) {
  std::vector<std::string> names;
  std::string name;
  const auto finish = [&] {
    if (!name.empty()) names.push_back(std::exchange(name, {}));
  };
  for (std::string_view part : split(value, ' ')) {
    if (part == "and" || part == "&" || part == "+") {
      finish();
      continue;
    }
    for (std::size_t end = 0; !part.empty(); part.remove_prefix(std::min(end + 1, part.size()))) {
      end = std::min(part.find_first_of(",;"), part.size());
      if (end > 0) name += (name.empty() ? "" : " ") + std::string(part.substr(0, end));
      if (end < part.size()) finish();
    }
  }
  finish();
  return names.empty() ? std::vector{value} : names;
}

Status describe(const Context& context, RecipeMachine& machine) {
  const Arguments& given = context.arguments;
  const auto driver = version(context, "--driver", 1, "550.54.14");
  if (!driver) return driver.error();
  const auto python = version(context, "--python-version", 2, "3.11");
  if (!python) return python.error();
  const auto capability = version(context, "--compute-capability", 2, "8.6");
  if (!capability) return capability.error();
  if (!driver->empty() || !capability->empty() || given.has("--gpu")) {
    machine.become_another();
    machine.driver = *driver;
    if (!driver->empty()) machine.wish.driver = newest_of(*driver);
    machine.wish.driver_cuda = doctor::shipped_compatibility().cuda_of_driver(machine.wish.driver);
    for (const std::string& value : given.values("--gpu"))
      for (const std::string& name : names_in(value)) {
        const auto& known = doctor::shipped_compatibility();
        machine.gpus.push_back({name, known.capability_as_said(name)});
        if (known.is_with_aarch64(name)) machine.wish.aarch64 = true;
      }
    if (!capability->empty()) {
      if (machine.gpus.empty()) machine.gpus.push_back({"", ""});
      for (auto& gpu : machine.gpus) gpu.capability = *capability;
    }
  }
  if (!python->empty()) machine.wish.python = doctor::beginning(*python);
  return Done{};
}

Error has_no_capability(const std::string& gpu, const std::string& maker, const Wish& wish) {
  const std::string there =
      std::string("berth env --format pip --framework ") + doctor::word_of(wish.framework) + "   ";
  if (maker == "Jetson")
    return {
        ErrorCode::kInvalidArgument, "E0835",
        text("{}: what runs on a Jetson depends on its JetPack, which only the Jetson itself shows",
             gpu),
        there + text("(on the Jetson)")};
  return {ErrorCode::kInvalidArgument, "E0835",
          text("{} is made by {} and has no compute capability; make the recipe on the machine "
               "with this GPU",
               gpu, maker),
          there + text("(on that machine)")};
}

Error is_two_cards(const std::string& gpu, const std::vector<std::string>& cards) {
  std::vector<std::string> both;
  for (const std::string& card : cards)
    both.push_back(text("{} (compute capability {})", card,
                        doctor::shipped_compatibility().capability_as_said(card)));
  return {
      ErrorCode::kInvalidArgument, "E0835",
      text("{}: several cards have that name: {}", gpu, fmt::format("{}", fmt::join(both, ", "))),
      text("specify it: {}", fmt::format("--gpu '{}'", fmt::join(cards, "' | --gpu '"))) +
          "   nvidia-smi --query-gpu=name,compute_cap --format=csv"};
}

Status check_gpus(RecipeMachine& machine) {
  for (const auto& gpu : machine.gpus) {
    // A given compute capability decides. Without one, the name must identify exactly one NVIDIA
    // GPU.
    if (const std::string maker = doctor::shipped_compatibility().other_maker(gpu.name);
        gpu.capability.empty() && machine.is_another && !maker.empty())
      return has_no_capability(printable(gpu.name), maker, machine.wish);
    if (const auto cards = doctor::shipped_compatibility().several_of(gpu.name);
        gpu.capability.empty() && !cards.empty())
      return is_two_cards(printable(gpu.name), cards);
    if (gpu.capability.empty())
      return Error{ErrorCode::kInvalidArgument, "E0835",
                   text("the compute capability of the {} is not known here", printable(gpu.name)),
                   text("specify it: {}", "--compute-capability X.Y") +
                       "   nvidia-smi --query-gpu=name,compute_cap --format=csv"};
    machine.wish.capabilities.push_back(gpu.capability);
  }
  return Done{};
}

std::string list(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string range_of(const Wish& wish) {
  std::vector<std::string> rows;
  for (const auto& build : doctor::builds_of(doctor::shipped_compatibility(), wish.framework,
                                             wish.platform, wish.aarch64)) {
    const std::string row = fmt::format("{} {}: {}", doctor::name_of(wish.framework), build.release,
                                        build.python.substr(0, build.python.find(' ')));
    if (rows.size() < 3 && (rows.empty() || rows.back() != row)) rows.push_back(row);
  }
  return list(rows);
}

std::string described(const RecipeMachine& machine) {
  const Wish& wish = machine.wish;
  std::vector<std::string> parts;
  if (!wish.python.empty()) parts.push_back("Python " + wish.python);
  if (wish.platform == Platform::kNvidia) {
    if (!machine.driver.empty()) parts.push_back(text("driver {}", machine.driver));
    for (const auto& gpu : machine.gpus)
      parts.push_back(gpu.name.empty() ? text("compute capability {}", gpu.capability)
                                       : text("{} (compute capability {})", printable(gpu.name),
                                              gpu.capability));
  }
  if (wish.platform == Platform::kRocm) parts.emplace_back("ROCm");
  if (wish.platform == Platform::kXpu) parts.emplace_back("XPU");
  if (wish.aarch64) parts.emplace_back("aarch64");
  return list(parts);
}

/// If another package index than the configured one has the builds, adds its name to the error.
void tell_other_index(const RecipeMachine& machine, const std::string& same, Error& error) {
  const Wish& wish = machine.wish;
  error.id = "E0834";
  if (wish.tags_only && wish.framework != Framework::kTorch) {
    error.message += "\n  " + text("{} is an index of PyTorch's builds, and does not contain {}",
                                   machine.index.named(), doctor::name_of(wish.framework));
    error.hint = text("PIP_INDEX_URL=URL {}   (PyPI, or your mirror of it)", same);
    return;
  }
  error.message +=
      "\n  " + (wish.tags_only ? text("{} has only some of PyTorch's builds, and none of them runs "
                                      "here; PyTorch's own index has others",
                                      machine.index.named())
                               : text("{} has only PyPI's builds, and none of them runs here; "
                                      "PyTorch's own index has others",
                                      machine.index.named()));
  error.hint = text("{} URL   (your mirror of {}, or that index itself)", same + " --torch-index",
                    doctor::kTorchIndex);
}

/// The error if no build works: one sentence for each change that would help, with the commands for
/// these changes.
Error no_recipe(const RecipeMachine& machine, const RecipeAsker& asker, const Arguments& given) {
  const Wish& wish = machine.wish;
  const std::string name = doctor::name_of(wish.framework);
  if (!machine.instead.empty())
    return {ErrorCode::kNotFound, "E0833",
            text("a Jetson needs the {} that NVIDIA builds for its JetPack, not one from PyPI or "
                 "PyTorch's own index",
                 name),
            machine.instead};
  const Changes changes = doctor::changes_for(doctor::shipped_compatibility(), wish);
  const std::string& base = asker.command;
  // the options that describe the same machine, to be repeated in the hints
  std::string machine_options;
  for (const char* option : {"--driver", "--gpu", "--compute-capability"})
    for (const std::string& value : given.values(option))
      machine_options += fmt::format(" {} {}", option, shell_word(value));
  if (given.has("--cpu")) machine_options += " --cpu";
  const std::string same = base + machine_options;
  Error error{ErrorCode::kNotFound, "E0833",
              text("no build of {} is known to run here: {}", name, described(machine)), ""};
  const auto hint = [&](const std::string& line) {
    error.hint += (error.hint.empty() ? "" : "\n") + line;
  };
  if (changes.another_index) tell_other_index(machine, same, error);
  if (changes.driver_too_new) {
    error.id = "E0831";
    error.message +=
        "\n  " + text("driver branch {} is the last that supports this GPU", changes.last_branch);
  } else if (!changes.driver.empty()) {
    if (!changes.another_index) error.id = "E0831";
    error.message += "\n  " + text("the driver is too old: it must be {} or newer", changes.driver);
    hint(text("install driver {} or newer", changes.driver));
  }
  if (!changes.pythons.empty()) {
    if (error.id == "E0833") error.id = "E0832";
    error.message +=
        "\n  " + (changes.both
                      ? text("and a suitable build needs another Python: {}", range_of(wish))
                      : text("a suitable build needs another Python: {}", range_of(wish)));
    const auto& pythons = changes.pythons;
    const auto here = asker.has_python == nullptr
                          ? pythons.begin()
                          : std::find_if(pythons.begin(), pythons.end(), asker.has_python);
    hint(here != pythons.end() ? asker.other_python + *here + machine_options
                               : asker.other_python + pythons.front() + machine_options +
                                     " --uv   " + text("(uv downloads this Python)"));
  }
  if (error.id == "E0833" && wish.platform == Platform::kNvidia)
    error.message +=
        "\n  " + text("no build supports this GPU: another driver or Python would not help");
  if (wish.platform != Platform::kCpu && wish.framework != Framework::kCupy) hint(base + " --cpu");
  if (wish.framework == Framework::kCupy && wish.platform != Platform::kNvidia)
    error.message += "\n  " + text("CuPy needs a GPU; use NumPy on the CPU");
  if (error.hint.empty())
    hint(base + " --driver 580.95 --gpu H100   " + text("(for another machine)"));
  return error;
}

/// Finds a build. For pip, it must work with the existing Python. conda and images install a Python
/// themselves, preferably of the same version.
std::optional<doctor::Recipe> find(RecipeMachine& machine, RecipeFormat format, bool python_given) {
  if (!machine.instead.empty()) return std::nullopt;
  const auto& known = doctor::shipped_compatibility();
  auto recipe = doctor::recipe_for(known, machine.wish);
  if (recipe || python_given || format == RecipeFormat::kPip) return recipe;
  for (const std::string& python : doctor::changes_for(known, machine.wish).pythons) {
    Wish other = machine.wish;
    other.python = python;
    if (auto found = doctor::recipe_for(known, other)) {
      machine.wish = other;
      return found;
    }
  }
  return std::nullopt;
}

std::vector<std::string> reasons_of_platform(const RecipeMachine& machine,
                                             const doctor::Recipe& recipe,
                                             const std::string& name) {
  const Wish& wish = machine.wish;
  const auto& build = recipe.build;
  std::vector<std::string> out;
  if (wish.platform == Platform::kNvidia) {
    out.push_back(text("{} {} built with CUDA {}", name, build.release, build.cuda));
    out.push_back(machine.driver.empty()
                      ? text("driver: needs {} or newer", recipe.driver)
                      : text("driver {}: {} or newer is needed", machine.driver, recipe.driver));
    for (const auto& gpu : machine.gpus) {
      const std::string line = recipe.by_ptx
                                   ? text(
                                         "{} (compute capability {}): at the first start, the "
                                         "driver compiles the kernels, which takes a long time",
                                         gpu.name.empty() ? "GPU" : gpu.name, gpu.capability)
                                   : text("{} (compute capability {}): this build supports it",
                                          gpu.name.empty() ? "GPU" : gpu.name, gpu.capability);
      // Print one line for several identical cards.
      if (std::find(out.begin(), out.end(), line) == out.end()) out.push_back(line);
    }
  } else if (wish.platform == Platform::kRocm) {
    out.push_back(text("{} {} for AMD's ROCm", name, build.release));
  } else if (wish.platform == Platform::kXpu) {
    out.push_back(text("{} {} for Intel's GPUs (XPU)", name, build.release));
  } else {
    out.push_back(machine.why_cpu.empty()
                      ? text("{} {} for the CPU", name, build.release)
                      : text("{} {} for the CPU: {}", name, build.release, machine.why_cpu));
  }
  return out;
}

std::vector<std::string> reasons(const RecipeMachine& machine, const doctor::Recipe& recipe) {
  const Wish& wish = machine.wish;
  const std::string name = doctor::name_of(wish.framework);
  const auto& build = recipe.build;
  std::vector<std::string> out = reasons_of_platform(machine, recipe, name);
  if (build.needs_toolkit)
    out.push_back(text(
        "{} {} uses the machine's CUDA: a toolkit {}.x must be in /usr/local/cuda or in CUDA_PATH",
        name, build.release, build.cuda.substr(0, build.cuda.find('.'))));
  if (wish.framework == Framework::kOnnxruntime && !build.cuda.empty())
    out.push_back(
        text("call {} before you create the first session, so that ONNX Runtime "
             "finds pip's CUDA libraries",
             "onnxruntime.preload_dlls()"));
  if (!wish.python.empty())
    out.push_back(text("Python {}: this release supports {}", wish.python, build.python));
  if (recipe.packages.size() > 1)
    out.push_back(text("{}: newer releases no longer support this GPU", recipe.packages.back()));
  if (machine.index.is_mirror())
    out.push_back(text("packages come from {} ({})", machine.index.named(),
                       machine.index.main ? machine.index.main->from : "no-index"));
  return out;
}

void write_json(const Context& context, const std::string& format, const RecipeMachine& machine,
                const doctor::RecipeOrder& order) {
  const auto& build = order.recipe.build;
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("format", format);
  json.field("framework", doctor::word_of(order.framework));
  json.field("release", build.release);
  json.text_field("cuda", build.cuda);
  json.field("packages", order.recipe.packages);
  json.text_field("index_url", order.choice.url);
  json.text_field("python", order.python);
  json.field("release_pythons", build.python);
  json.text_field("needs_driver", order.recipe.driver);
  json.text_field("driver", machine.driver);
  json.rows("gpus", machine.gpus, [&](const auto& gpu) {
    json.text_field("name", gpu.name);
    json.field("compute_capability", gpu.capability);
  });
  json.text_field("base_image", order.image);
  json.field("reasons", order.reasons);
  json.field("recipe", doctor::recipe_text(*doctor::recipe_format_of(format), order));
  json.close('}');
  context.out(json.finish());
}

Error no_image(const std::string& python) {
  std::vector<std::string> pythons;
  for (const auto& row : doctor::shipped_compatibility().images) pythons.push_back(row.python);
  return {ErrorCode::kNotFound, "E0836",
          text("no base image for Python {} is known; base images are known for {}", python,
               list(pythons)),
          "--python-version " + pythons.front()};
}

}  // namespace

Result<RecipePlan> plan_recipe(const Context& context, const doctor::Facts& facts,
                               Framework framework, RecipeFormat format, const RecipeAsker& asker,
                               const std::string& release, int cuda_major) {
  const bool cpu = context.arguments.has("--cpu") || context.arguments.has("--gpus");
  RecipePlan plan;
  RecipeMachine& machine = plan.machine = doctor::machine_for_recipe(facts, framework, cpu);
  if (const auto sound = describe(context, machine); !sound) return sound.error();
  if (const auto sound = check_gpus(machine); !sound) return sound.error();

  doctor::RecipeOrder& order = plan.order;
  order.framework = framework;
  order.target = facts.python;
  machine.index = order.index =
      format == RecipeFormat::kPip ? facts.packages.of(facts.python) : facts.packages.pip;
  const doctor::PackageIndex& uv = facts.packages.uv;
  const bool for_uv = format == RecipeFormat::kPip && &facts.packages.of(facts.python) == &uv;
  if (uv.main && !for_uv)
    machine.notes.push_back(text(
        "uv uses the index {} ({}), a setting that pip does not read: this is a recipe for pip",
        printable(uv.main->url), uv.main->from));
  doctor::keep_to(order.index, machine.wish);
  machine.wish.keep = release;
  machine.wish.cuda_major = cuda_major;
  const bool is_image =
      format == RecipeFormat::kDockerfile || format == RecipeFormat::kDevcontainer;
  machine.wish.no_toolkit = is_image;
  std::string torch_index = context.arguments.value("--torch-index").value_or("");
  while (torch_index.ends_with('/')) torch_index.pop_back();
  if (!torch_index.empty()) machine.wish.pypi_only = false;
  const auto recipe = find(machine, format, context.arguments.has("--python-version"));
  if (!recipe) return no_recipe(machine, asker, context.arguments);

  order.recipe = *recipe;
  order.python = machine.wish.python;
  order.choice = doctor::index_of(recipe->build, order.index, torch_index);
  order.channels = facts.packages.conda;
  if (machine.is_another || context.arguments.has("--python-version")) order.target = {};
  order.reasons = reasons(machine, *recipe);
  if (is_image) {
    const auto& images = doctor::shipped_compatibility().images;
    const auto image = std::find_if(images.begin(), images.end(), [&](const auto& row) {
      return order.python.empty() ? doctor::in_range(row.python, recipe->build.python)
                                  : row.python == order.python;
    });
    if (image == images.end()) return no_image(order.python);
    order.image = image->image;
    order.python = image->python;
  }
  return plan;
}

Result<int> print_recipe(const Context& context) {
  const std::string word = *context.arguments.value("--format");
  const RecipeFormat format = *doctor::recipe_format_of(word);
  Framework framework{};
  if (const auto sound = check_options(context, framework); !sound) return sound.error();
  if (auto checked = inventory::Sources::check_environment(); !checked)
    return std::move(checked).error();
  const doctor::Facts facts = doctor::collect(doctor::this_machine(doctor::Depth::kLive));
  const std::string command =
      fmt::format("berth env --format {} --framework {}", word, doctor::word_of(framework));
  const auto plan =
      plan_recipe(context, facts, framework, format, {command, command + " --python-version "});
  if (!plan) return plan.error();
  if (context.json) {
    write_json(context, word, plan->machine, plan->order);
    return 0;
  }
  for (const std::string& note : plan->machine.notes) context.err("# " + note + "\n");
  context.out(doctor::recipe_text(format, plan->order));
  return 0;
}

}  // namespace berth::cli
