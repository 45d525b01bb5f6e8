// What a package was built for, according to its name and version. Also rules about packages whose
// build does not support this machine's GPUs.
#pragma once

#include <string>
#include <string_view>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// Whether the package is compiled against PyTorch. If so, each of its builds works only with
/// certain PyTorch releases.
[[nodiscard]] bool is_torch_extension(std::string_view name);
/// The CUDA version in a build tag: "12.4" for "pt24cu124", "12" for "cu12torch2.5cxx11abitrue"; ""
/// if unknown.
[[nodiscard]] std::string cuda_in_tag(std::string_view tag);

/// Parts of FW03 and FW04, up to torch_too_old_for_xpu(): the build of a package does not support
/// the GPU.
void tensorflow_too_old(Examination& look);
void packages_without_kernels(Examination& look, bool newer);
void cuda_too_new_for_gpu(Examination& look);
void cuda_too_old_for_gpu(Examination& look);
void tensorflow_without_code(Examination& look);
void torch_too_old_for_xpu(Examination& look);

/// Part of FW07: packages other than PyTorch that are built for GPUs of another vendor.
void other_vendor(Examination& look);

/// Part of ENV10: packages that compile code at run time with an unsuitable toolkit.
void toolkit_for_building(Examination& look);

}  // namespace berth::doctor
