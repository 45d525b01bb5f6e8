// A rule: one thing that can be wrong, as a pure function over facts. It looks through an
// Examination, which remembers what could not be read: a rule that finds nothing is "checked" only
// if it could see all that it asked for.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "doctor/facts.hpp"
#include "doctor/knowledge.hpp"
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

  /// The value; nullptr where it is absent or unreadable. The second is remembered.
  template <typename T>
  const T* see(const Fact<T>& fact) {
    if (fact.is_unreadable()) note_unreadable(fact.why());
    return fact.has_value() ? &*fact : nullptr;
  }
  template <typename T>
  const T* see(const Fact<T>&& fact) = delete;  // would point into what is about to go
  /// A list of which nothing was refused: what it does not hold is not there. Else nullptr, which
  /// is remembered.
  template <typename T>
  const T* see_whole(const Fact<T>& fact) {
    const T* seen = see(fact);
    if (fact.is_whole()) return seen;
    if (seen != nullptr) note_unreadable(fact.why());
    return nullptr;
  }
  template <typename T>
  const T* see_whole(const Fact<T>&& fact) = delete;
  /// Whether it is known not to be there.
  template <typename T>
  bool missing(const Fact<T>& fact) {
    if (fact.is_unreadable()) note_unreadable(fact.why());
    return fact.is_absent();
  }

  /// A finding of this rule, of the severity in its row, which may be changed. May be called more
  /// than once (once a GPU, say).
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
  const char* id;  // "HW02", as in docs/doctor.md
  Layer layer;
  Severity severity;
  /// A public case has shown it right (data/failures.jsonl); else its confidence is low.
  bool proven;
  const char* about;  // msgid: what it looks for, one line (--list)
  /// Ids that this one makes secondary, blank separated; "FW*" is all that begin so.
  const char* explains;
  void (*look)(Examination&);
};

/// Every rule, ground up.
[[nodiscard]] std::vector<Rule> all_rules();
std::span<const Rule> hardware_rules();
std::span<const Rule> link_rules();
std::span<const Rule> driver_module_rules();
std::span<const Rule> driver_branch_rules();
std::span<const Rule> driver_node_rules();
std::span<const Rule> driver_service_rules();
std::span<const Rule> driver_install_rules();
std::span<const Rule> driver_answer_rules();
std::span<const Rule> driver_silence_rules();  // where it answers nothing
std::span<const Rule> vgpu_rules();
std::span<const Rule> xid_rules();
std::span<const Rule> runtime_rules();
std::span<const Rule> collective_rules();
std::span<const Rule> opencl_rules();
std::span<const Rule> library_rules();
std::span<const Rule> wheel_rules();  // libraries that come from Python packages
std::span<const Rule> unfound_library_rules();
std::span<const Rule> framework_rules();  // against driver and GPU
std::span<const Rule> package_rules();    // against each other
std::span<const Rule> extension_rules();  // against PyTorch
std::span<const Rule> build_rules();      // and builds that are not for this GPU
std::span<const Rule> import_rules();     // what the loader gives them
std::span<const Rule> fit_rules();        // and builds that do not fit
std::span<const Rule> memory_rules();     // how they take memory
std::span<const Rule> program_rules();    // and what is no package
std::span<const Rule> pair_rules();       // whose releases do not go together
std::span<const Rule> compiler_rules();   // and what they are compiled with
std::span<const Rule> container_rules();
std::span<const Rule> container_system_rules();
std::span<const Rule> container_host_rules();
std::span<const Rule> node_service_rules();  // that give GPUs to jobs and pods
std::span<const Rule> visible_device_rules();
std::span<const Rule> environment_rules();
std::span<const Rule> shadow_rules();    // libraries before libraries
std::span<const Rule> variable_rules();  // with values that break something
std::span<const Rule> launch_rules();    // that whoever starts a program gives, or should
std::span<const Rule> switch_rules();    // variables that switch the GPU off
std::span<const Rule> processor_rules();
std::span<const Rule> instruction_rules();  // that a processor lacks
std::span<const Rule> power_rules();
std::span<const Rule> rdma_rules();  // between machines
std::span<const Rule> other_platform_rules();
std::span<const Rule> intel_rules();        // and what computes on them
std::span<const Rule> rocm_rules();         // beside nodes and code
std::span<const Rule> left_out_rules();     // by the kernel
std::span<const Rule> kernel_line_rules();  // what it says of them

}  // namespace berth::doctor
