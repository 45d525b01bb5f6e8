// Finds unknown names that differ from a known name in one or two letters.
#include <algorithm>

#include "base/spelling.hpp"
#include "base/text_parts.hpp"
#include "doctor/source/shell.hpp"

namespace berth::doctor::source {
namespace {

constexpr std::string_view kVariables[] = {"CUDA_VISIBLE_DEVICES",
                                           "CUDA_DEVICE_ORDER",
                                           "CUDA_LAUNCH_BLOCKING",
                                           "CUDA_MODULE_LOADING",
                                           "CUBLAS_WORKSPACE_CONFIG",
                                           "PYTORCH_CUDA_ALLOC_CONF",
                                           "PYTORCH_HIP_ALLOC_CONF",
                                           "PYTORCH_ALLOC_CONF",
                                           "NVIDIA_VISIBLE_DEVICES",
                                           "NVIDIA_DRIVER_CAPABILITIES",
                                           "HIP_VISIBLE_DEVICES",
                                           "ROCR_VISIBLE_DEVICES",
                                           "HSA_OVERRIDE_GFX_VERSION",
                                           "TF_FORCE_GPU_ALLOW_GROWTH",
                                           "TF_CPP_MIN_LOG_LEVEL",
                                           "TF_CPP_MIN_VLOG_LEVEL",
                                           "TF_CPP_MAX_VLOG_LEVEL",
                                           "XLA_PYTHON_CLIENT_PREALLOCATE",
                                           "XLA_PYTHON_CLIENT_MEM_FRACTION",
                                           "XLA_PYTHON_CLIENT_ALLOCATOR",
                                           "NCCL_SOCKET_IFNAME",
                                           "NCCL_P2P_DISABLE",
                                           "NCCL_SHM_DISABLE",
                                           "NCCL_IB_DISABLE",
                                           "GLOO_SOCKET_IFNAME",
                                           "ZE_AFFINITY_MASK",
                                           "OMP_NUM_THREADS",
                                           "MKL_NUM_THREADS"};
constexpr std::string_view kAllocatorKeys[] = {"expandable_segments",
                                               "max_split_size_mb",
                                               "max_non_split_rounding_mb",
                                               "garbage_collection_threshold",
                                               "roundup_power2_divisions",
                                               "roundup_bypass_threshold_mb",
                                               "backend",
                                               "release_lock_on_cudamalloc",
                                               "release_lock_on_hipmalloc",
                                               "per_process_memory_fraction",
                                               "pinned_use_cuda_host_register",
                                               "pinned_use_hip_host_register",
                                               "pinned_use_background_threads",
                                               "pinned_num_register_threads"};
constexpr std::size_t kMostEdits = 2;

/// The known name that is similar to the word; "" if there is none, or if the word is a known name.
std::string_view near_one(std::string_view word, std::span<const std::string_view> known) {
  if (word.size() < 7 || word.size() > 64 ||
      std::find(known.begin(), known.end(), word) != known.end())
    return "";
  for (const std::string_view one : known)
    if (edit_distance(word, one) <= kMostEdits) return one;
  return "";
}

}  // namespace

std::string misspelt_variable(std::string_view name) {
  const std::string_view meant = near_one(name, kVariables);
  // Both names must have the same first part, because a variable such as MUSA_VISIBLE_DEVICES
  // belongs to another vendor.
  const bool same_maker = name.substr(0, name.find('_')) == meant.substr(0, meant.find('_'));
  return same_maker ? std::string(meant) : "";
}

std::pair<std::string, std::string> misspelt_allocator_key(std::string_view value) {
  for (const std::string_view part : split(value, ',')) {
    const std::string_view key = trim(part.substr(0, part.find_first_of(":=")));
    std::string_view meant = near_one(key, kAllocatorKeys);
    // The user may have omitted the unit, as in "max_split_size".
    for (const std::string_view one : kAllocatorKeys)
      if (meant.empty() && key.size() >= 8 && one.size() > key.size() && one.starts_with(key))
        meant = one;
    if (!meant.empty()) return {std::string(key), std::string(meant)};
  }
  return {};
}

}  // namespace berth::doctor::source
