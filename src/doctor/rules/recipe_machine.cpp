#include "doctor/rules/recipe_machine.hpp"

#include "base/text.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/reinstall.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {

void RecipeMachine::become_another() {
  is_another = wish.planned = true;
  wish.platform = Platform::kNvidia;
  wish.driver = wish.driver_cuda = driver = "";
  wish.capabilities.clear();
  gpus.clear();
  notes.clear();
  why_cpu.clear();
  instead.clear();
}

RecipeMachine machine_for_recipe(const Facts& facts, Framework framework, bool cpu) {
  const Knowledge knowledge;
  Examination look(facts, knowledge, Severity::kInfo);
  RecipeMachine machine;
  machine.wish = wish_of(look, framework);
  machine.wish.capabilities.clear();
  machine.driver = machine.wish.driver;
  for (const SeenGpu& gpu : seen_gpus(look)) machine.gpus.push_back({gpu.name, gpu.capability});
  if (const auto own = jetson_torch(knowledge.compatibility(), facts);
      own && framework == Framework::kTorch && !cpu)
    machine.instead = own->command.empty() ? own->says : own->command;
  if (!machine.gpus.empty() && !cpu) {
    if (machine.wish.driver.empty() && machine.wish.driver_cuda.empty())
      machine.notes.push_back(
          text("no driver answers here, so the driver was not checked; berth doctor says why it "
               "does not answer"));
    return machine;
  }
  machine.gpus.clear();
  machine.driver.clear();
  machine.wish.driver = machine.wish.driver_cuda = "";
  if (!cpu && framework == Framework::kTorch && has_rocm_gpu(look)) {
    machine.wish.platform = Platform::kRocm;
    return machine;
  }
  const bool has_intel_card = !cards_on_bus(look, kVendorIntel).empty();
  if (!cpu && framework == Framework::kTorch && has_intel_card) {
    machine.wish.platform = Platform::kXpu;
    return machine;
  }
  machine.wish.platform = Platform::kCpu;
  if (cpu) return machine;
  machine.why_cpu =
      has_rocm_gpu(look) ? text("Berth's tables have no build of this framework for AMD's GPUs")
      : has_intel_card   ? text("Berth's tables have no build of this framework for Intel's GPUs")
                         : text("no build in Berth's tables supports a GPU of this machine");
  machine.notes.push_back(machine.why_cpu +
                          text("; for another machine: {}", "--driver 550.54 --gpu H100"));
  return machine;
}

}  // namespace berth::doctor
