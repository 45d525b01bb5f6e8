#include "doctor/rules/rule.hpp"

#include <algorithm>

#include "doctor/rules/on_request.hpp"

namespace berth::doctor {

Finding& Examination::found(std::string title) {
  Finding& finding = findings_.emplace_back();
  finding.severity = severity_;
  finding.title = std::move(title);
  return finding;
}

void Examination::note_unreadable(const Unreadable& why) {
  const bool known = std::any_of(unread_.begin(), unread_.end(), [&](const Unreadable& other) {
    return other.where == why.where && other.error_number == why.error_number;
  });
  if (!known) unread_.push_back(why);
}

std::vector<Rule> all_rules() {
  std::vector<Rule> all;
  for (const auto group : {hardware_rules(),
                           link_rules(),
                           driver_module_rules(),
                           driver_branch_rules(),
                           driver_node_rules(),
                           driver_service_rules(),
                           driver_install_rules(),
                           driver_answer_rules(),
                           driver_silence_rules(),
                           vgpu_rules(),
                           xid_rules(),
                           other_platform_rules(),
                           rocm_rules(),
                           intel_rules(),
                           left_out_rules(),
                           kernel_line_rules(),
                           container_rules(),
                           container_system_rules(),
                           container_host_rules(),
                           node_service_rules(),
                           visible_device_rules(),
                           environment_rules(),
                           shadow_rules(),
                           switch_rules(),
                           variable_rules(),
                           launch_rules(),
                           library_rules(),
                           wheel_rules(),
                           unfound_library_rules(),
                           framework_rules(),
                           package_rules(),
                           extension_rules(),
                           build_rules(),
                           import_rules(),
                           fit_rules(),
                           memory_rules(),
                           program_rules(),
                           pair_rules(),
                           compiler_rules(),
                           processor_rules(),
                           instruction_rules(),
                           runtime_rules(),
                           power_rules(),
                           rdma_rules(),
                           collective_rules(),
                           opencl_rules(),
                           on_request_rules()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace berth::doctor
