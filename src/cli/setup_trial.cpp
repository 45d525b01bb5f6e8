#include "cli/setup_trial.hpp"

#include <algorithm>

#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "cli/setup_environment.hpp"
#include "doctor/read/collect.hpp"
#include "doctor/read/probe.hpp"
#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/recipe_machine.hpp"

namespace berth::cli {
namespace {

using doctor::Framework;
using doctor::ProbeAnswer;
using doctor::ProbeState;

/// The text of a Python program that does a small computation with the framework on the CPU.
const char* computation(Framework framework) {
  switch (framework) {
    case Framework::kTorch:
      return "import torch; assert float((torch.ones(64) * 2).sum()) == 128";
    case Framework::kTensorflow:
      return "import tensorflow as tf; assert float(tf.reduce_sum(tf.ones(64) * 2)) == 128";
    case Framework::kJax:
      return "import jax.numpy as np; assert float((np.ones(64) * 2).sum()) == 128";
    case Framework::kCupy:
      return "";  // CuPy computes only on GPUs, so there is no such program
    case Framework::kOnnxruntime:
      break;
  }
  // The program contains an ONNX model of one node, y = x + x, as protobuf.
  return "import numpy, onnxruntime\n"
         "model = bytes.fromhex('08073a350a0e0a01780a017812017922034164641201675a0f0a0178120a"
         "0a08080112040a020801620f0a0179120a0a08080112040a02080142040a00100d')\n"
         "run = onnxruntime.InferenceSession(model, providers=['CPUExecutionProvider']).run\n"
         "assert run(None, {'x': numpy.ones(1, numpy.float32)})[0][0] == 2";
}

/// Whether a computation on the CPU succeeds. Frameworks print errors about a missing CUDA driver
/// even then, so their output is shown only after a failure.
bool computes_on_cpu(const std::string& python, Framework framework) {
  const char* code = computation(framework);
  if (*code == '\0') return false;
  return run_program({"/bin/sh", "-c", "exec \"$0\" -B -c \"$1\" 2>/dev/null", python, code}) ==
             0 ||
         run_program({python, "-B", "-c", code}) == 0;
}

class Trial {
 public:
  Trial(const Context& context, std::string python, std::string folder)
      : python_(std::move(python)),
        folder_(std::move(folder)),
        sources_(doctor::this_machine(doctor::Depth::kLive)) {
    sources_.python = python_;
    doctor::ProbeOptions options;
    options.on_slow = [&](const std::string& names) {
      context.err(text("trying to run a kernel with {}: at most {} s", names, 15) + "\n");
    };
    sources_.request.probe = doctor::probe_target(sources_, options);
  }

  TrialResult result(const TriedFramework& tried) {
    const ProbeAnswer* answer = answer_of(tried.framework);
    const std::string name = doctor::name_of(tried.framework);
    const std::string version =
        answer == nullptr || answer->version.empty() ? tried.release : answer->version;
    if (answer != nullptr && answer->state == ProbeState::kRan) {
      const auto count = static_cast<long long>(answer->devices.size());
      return {tried.framework,
              "ran",
              version,
              text_n("{1} {2} sees {0} GPU; a kernel ran",
                     "{1} {2} sees {0} GPUs; a kernel ran on each", count, name, version),
              "",
              answer->devices.size()};
    }
    const bool sees_none = answer != nullptr && (answer->state == ProbeState::kCpuBuild ||
                                                 answer->state == ProbeState::kNoDevice ||
                                                 answer->state == ProbeState::kFailed);
    if (tried.on_cpu && sees_none && computes_on_cpu(python_, tried.framework))
      return {tried.framework,
              "ran_on_cpu",
              version,
              text("{} {} on the CPU; a test computation ran", name, version),
              "",
              0};
    return first_cause(tried, answer, version);
  }

 private:
  [[nodiscard]] const ProbeAnswer* answer_of(Framework framework) const {
    if (sources_.request.probe)
      for (const ProbeAnswer& one : *sources_.request.probe)
        if (one.framework == doctor::word_of(framework)) return &one;
    return nullptr;
  }

  /// The result of a failed computation, with the first cause that `berth doctor --deep` finds.
  TrialResult first_cause(const TriedFramework& tried, const ProbeAnswer* answer,
                          const std::string& version) {
    TrialResult result{tried.framework, "failed", version, "", "", {}};
    if (!diagnosis_)
      diagnosis_ = doctor::diagnose(doctor::collect(sources_), {}, {}, sources_.request);
    for (const model::Finding& finding : diagnosis_->findings) {
      // A missing GPU is the cause only if the framework should have used a GPU.
      const bool needs_gpu = !tried.on_cpu || tried.framework == Framework::kCupy;
      const bool has_no_gpu = needs_gpu && finding.id == "HW01";
      if (finding.severity < model::Severity::kError && !has_no_gpu) continue;
      result.says = has_no_gpu ? text("{} is installed, but its test computation failed{}",
                                      doctor::name_of(tried.framework), ": " + finding.title)
                               : finding.title;
      if (!finding.fix.empty())
        result.hint = finding.fix[0].command.empty() ? finding.fix[0].says : finding.fix[0].command;
      break;
    }
    if (result.says.empty())
      result.says = text(
          "{} is installed, but its test computation failed{}", doctor::name_of(tried.framework),
          answer == nullptr || answer->message.empty() ? "" : ": " + answer->message);
    if (result.hint.empty()) result.hint = "berth doctor --deep --venv " + shell_word(folder_);
    return result;
  }

  std::string python_, folder_;
  doctor::Sources sources_;
  std::optional<model::Diagnosis> diagnosis_;
};

}  // namespace

std::vector<TrialResult> try_frameworks(const Context& context, const std::string& python,
                                        const std::string& folder,
                                        const std::vector<TriedFramework>& tried) {
  std::vector<TrialResult> results;
  Trial trial(context, python, folder);
  for (const TriedFramework& one : tried) results.push_back(trial.result(one));
  return results;
}

std::vector<TriedFramework> frameworks_in(const std::string& python) {
  doctor::Sources sources = doctor::this_machine(doctor::Depth::kLive);
  sources.python = python;
  const doctor::Facts facts = doctor::collect(sources);
  std::vector<TriedFramework> all;
  for (const std::string& word : doctor::frameworks_of(sources.tree, facts.python))
    if (const auto framework = doctor::framework_of(word)) {
      const auto machine = doctor::machine_for_recipe(facts, *framework, false);
      all.push_back({*framework, machine.wish.platform == doctor::Platform::kCpu, ""});
    }
  return all;
}

}  // namespace berth::cli
