// A rule checks for one kind of problem. It is a pure function of the facts and reads them through
// an Examination, which records facts that were unreadable. A rule without findings counts as
// "checked" only if everything that it needed was readable.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "doctor/facts/facts.hpp"
#include "doctor/knowledge/knowledge.hpp"
#include "model/diagnosis.hpp"

namespace berth::doctor {

using model::Confidence;
using model::Finding;
using model::Layer;
using model::Severity;

class Examination {
 public:
  Examination(const Facts& given, const Knowledge& known, Severity usual)
      : facts(given), knowledge(known), severity_(usual) {}

  const Facts& facts;
  const Knowledge& knowledge;

  /// Returns the value, or nullptr if the fact is absent or unreadable. An unreadable fact is
  /// recorded.
  template <typename T>
  const T* see(const Fact<T>& fact) {
    if (fact.is_unreadable()) note_unreadable(fact.why());
    return fact.has_value() ? &*fact : nullptr;
  }
  template <typename T>
  const T* see(const Fact<T>&& fact) = delete;  // the pointer would point into a temporary
  /// Returns the value only if the fact is complete, so that everything not listed in it does not
  /// exist. If the fact is incomplete, returns nullptr and records the reason.
  template <typename T>
  const T* see_whole(const Fact<T>& fact) {
    const T* seen = see(fact);
    if (fact.is_whole()) return seen;
    if (seen != nullptr) note_unreadable(fact.why());
    return nullptr;
  }
  template <typename T>
  const T* see_whole(const Fact<T>&& fact) = delete;
  /// Whether the fact is certainly absent. If the fact is unreadable, returns false and records
  /// this.
  template <typename T>
  bool missing(const Fact<T>& fact) {
    if (fact.is_unreadable()) note_unreadable(fact.why());
    return fact.is_absent();
  }

  /// Adds a finding of this rule, for example one for each GPU. The severity is taken from the
  /// table of rules; the caller may change it.
  Finding& found(std::string title);

  [[nodiscard]] std::vector<Finding>& findings() { return findings_; }
  [[nodiscard]] const std::vector<Unreadable>& unread() const { return unread_; }
  void note_unreadable(const Unreadable& why);

 private:
  Severity severity_;
  std::vector<Finding> findings_;
  std::vector<Unreadable> unread_;
};

struct Rule {
  const char* id;  // such as "HW02"; `berth doctor --list` shows it
  Layer layer;
  Severity severity;
  /// Whether a machine from a public report confirms the rule. Otherwise its findings have low
  /// confidence.
  bool proven;
  const char* about;  // msgid: what the rule checks, in a few words (--list)
  /// Ids of the findings that this rule's finding explains, separated by spaces. "FW*" means all
  /// ids that begin with "FW".
  const char* explains;
  void (*look)(Examination&);
};

/// All rules, lowest layer first.
[[nodiscard]] std::vector<Rule> all_rules();
std::span<const Rule> hardware_rules();
std::span<const Rule> link_rules();
std::span<const Rule> driver_module_rules();
std::span<const Rule> driver_branch_rules();
std::span<const Rule> driver_node_rules();
std::span<const Rule> driver_service_rules();
std::span<const Rule> driver_install_rules();
std::span<const Rule> driver_answer_rules();
std::span<const Rule> driver_silence_rules();  // rules for a driver or GPU that does not answer
std::span<const Rule> vgpu_rules();
std::span<const Rule> xid_rules();
std::span<const Rule> runtime_rules();
std::span<const Rule> collective_rules();
std::span<const Rule> opencl_rules();
std::span<const Rule> library_rules();
std::span<const Rule> wheel_rules();  // libraries from Python packages
std::span<const Rule> unfound_library_rules();
std::span<const Rule> framework_rules();  // frameworks that do not match the driver or the GPU
std::span<const Rule> package_rules();    // packages that do not match each other
std::span<const Rule> extension_rules();  // PyTorch extensions
std::span<const Rule> build_rules();      // builds for the CPU or for another vendor's GPUs
std::span<const Rule> import_rules();     // libraries that the loader does not find for frameworks
std::span<const Rule> fit_rules();        // packages for another Python, untested AMD drivers
std::span<const Rule> memory_rules();     // memory allocation that vGPUs or Jetsons do not support
std::span<const Rule> program_rules();    // programs other than Python packages
std::span<const Rule> pair_rules();       // packages with incompatible releases
std::span<const Rule> compiler_rules();   // compilers used at run time
std::span<const Rule> container_rules();
std::span<const Rule> container_system_rules();
std::span<const Rule> container_host_rules();
std::span<const Rule> node_service_rules();  // services that assign GPUs to jobs and pods
std::span<const Rule> visible_device_rules();
std::span<const Rule> environment_rules();
std::span<const Rule> shadow_rules();    // libraries that LD_LIBRARY_PATH overrides
std::span<const Rule> variable_rules();  // variables with harmful values
std::span<const Rule> launch_rules();    // variables and settings that launchers pass
std::span<const Rule> switch_rules();    // variables that select the CPU
std::span<const Rule> processor_rules();
std::span<const Rule> instruction_rules();  // instructions that the CPU lacks
std::span<const Rule> power_rules();
std::span<const Rule> rdma_rules();  // transfers between machines
std::span<const Rule> other_platform_rules();
std::span<const Rule> intel_rules();        // Intel's GPUs and their runtimes
std::span<const Rule> rocm_rules();         // memory, firmware, kernel and runtime of AMD GPUs
std::span<const Rule> left_out_rules();     // GPUs that the kernel does not use
std::span<const Rule> kernel_line_rules();  // known lines of the kernel log

}  // namespace berth::doctor
