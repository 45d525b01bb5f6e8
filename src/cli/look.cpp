#include "cli/look.hpp"

#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::cli {

Result<model::Snapshot> look(const Context& context, Processes processes, bool opencl) {
  const Arguments& asked = context.arguments;
  if (asked.has("--opencl") && asked.has("--no-opencl"))
    return contradiction("--opencl", "--no-opencl");
  if (auto checked = inventory::Sources::check_environment(); !checked)
    return std::move(checked).error();
  inventory::Options options;
  options.process_details = options.holders = processes == Processes::kAll;
  if (!opencl) options.opencl = inventory::OpenCl::kNever;
  options.pcie_throughput = asked.has("--pcie-throughput");
  if (asked.has("--opencl")) options.opencl = inventory::OpenCl::kAlways;
  if (asked.has("--no-opencl")) options.opencl = inventory::OpenCl::kNever;
  options.on_slow = [&context](std::string_view says) { context.err(printable(says) + "\n"); };
  return inventory::observe(inventory::Sources::from_environment(), options);
}

output::View view_of(const Arguments& arguments) {
  output::View view;
  view.devices = arguments.values("--device");
  view.user = arguments.value("--user").value_or("");
  view.mine = arguments.has("--mine");
  view.own_uid = ::getuid();
  view.sort = arguments.value("--sort").value_or("");
  return view;
}

}  // namespace berth::cli
