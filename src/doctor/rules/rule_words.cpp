#include "doctor/rules/rule_words.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::doctor {
namespace {

struct Row {
  /// Rule ids, separated by spaces; "FW*" means all ids that begin with "FW". The first row that
  /// matches is used.
  std::string_view rules;
  RuleWords words;
};
/// Texts for the rules about source files. data/source_rules.toml has their descriptions and fixes.
constexpr auto kSourceRows = std::to_array<Row>({
    {"SRC01",
     {"", "",
      msgid("the node's mode was changed on purpose, and its users are in the node's group")}},
    {"SRC02 SRC03 SRC04 SRC43",
     {"", "", msgid("nvidia-smi does not list the program while the program is running")}},
    {"SRC05 SRC07 SRC37 SRC41 SRC44",
     {"", "",
      msgid("the program's torch.cuda.device_count() equals the list's length, and the uuids "
            "match")}},
    {"SRC06 SRC08 SRC40",
     {"", "", msgid("the variable's effect is visible; for LD_LIBRARY_PATH in /proc/self/maps")}},
    {"SRC09 SRC10 SRC16 SRC18 SRC19 SRC20 SRC23 SRC28",
     {"", "", msgid("the older release is intended, and the GPU and driver are equally old")}},
    {"SRC12 SRC13 SRC14 SRC15 SRC32 SRC36 SRC49",
     {"", "", msgid("torch.cuda.max_memory_allocated() is as high without the line")}},
    {"SRC17",
     {"", "",
      msgid("/proc/PID/maps shows that the library is loaded from the folder in the line")}},
    {"SRC24 SRC25 SRC29 SRC30 SRC33 SRC35",
     {"", "",
      msgid("without the line, a step takes just as long "
            "(timed with torch.cuda.synchronize() around it)")}},
    {"SRC26 SRC27 SRC34 SRC38 SRC39 SRC45 SRC46 SRC47",
     {"", "",
      msgid(
          "nvidia-smi shows each process on its intended GPU, and each process has its own data")}},
    {"SRC*", {"", "", msgid("a run without the line does the same")}},
});
constexpr auto kRows = std::to_array<Row>({
    {"HW14",
     {msgid("the results that berth bench --keep has stored; nothing is measured"),
      msgid("check the device's cooling, power limit, clocks and slot; or keep a new baseline "
            "after a change"),
      msgid("berth bench --keep, repeated on the idle device, is as fast as the baseline")}},
    {"HW05 HW06 HW07 HW09 HW11 HW12 HW13",
     {msgid("each PCIe link's width, speed and error counters, ACS, the IOMMU and the NUMA node, "
            "in /sys/bus/pci"),
      msgid("change the slot, the riser, a BIOS setting or a kernel parameter, or "
            "use cores near the GPU"),
      msgid("under load, a transfer reaches the link's full speed")}},
    {"HW*",
     {msgid("the GPUs on the PCI bus, with their drivers, BARs (memory windows) and power states; "
            "the kernel's log"),
      msgid("check the slot, the power cables and the BIOS; or change what the hypervisor passes "
            "through or which driver is bound"),
      msgid("nvidia-smi -L or rocminfo lists every GPU")}},
    {"DRV11 DRV12 DRV13 DRV14 DRV22",
     {msgid(
          "the nodes in /dev and who may open them, nvidia_uvm, MPS's pipe, what cuInit() returns"),
      msgid("create the node again, add the user to a group, or reload nvidia_uvm"),
      msgid("cuInit() returns 0 for this user")}},
    {"DRV15 DRV16 DRV19 DRV20 DRV21 DRV25 DRV26 DRV27 DRV28 DRV29 DRV30",
     {msgid("the driver's answers to NVML calls (made in a child process with a deadline), and the "
            "driver's services"),
      msgid("start the service, set the mode or do the reset that the finding names"),
      msgid("nvidia-smi -q shows a different value from the finding")}},
    {"DRV23 DRV24 RT12",
     {msgid("the kernel's log since boot, compared with the catalogue of messages"),
      msgid("follow the advice that the finding gives for that message"),
      msgid("the GPU was reset or the machine rebooted after the message, and the "
            "message did not come again")}},
    {"DRV*",
     {msgid("the loaded and the installed kernel modules and their versions, Secure Boot, the "
            "driver's libraries, the kernel's log"),
      msgid("install, build or sign the module for this kernel, and reboot"),
      msgid("nvidia-smi works, so the library and the module have the same version")}},
    {"WSL*",
     {msgid("the folder of the Windows driver (/usr/lib/wsl), /dev/dxg, and the driver packages "
            "inside WSL"),
      msgid("install the driver in Windows, and no Linux driver inside WSL"),
      msgid("/usr/lib/wsl/lib/nvidia-smi lists the GPU")}},
    {"AMD*",
     {msgid("ROCm's list of GPUs (/sys/class/kfd), /dev/kfd and the render nodes, ROCm's "
            "libraries, the kernel's log"),
      msgid("change the firmware, the kernel or the groups of the device files, or install a build "
            "that has code for the GPU"),
      msgid("rocminfo lists the GPU, and a kernel runs: --deep")}},
    {"XPU*",
     {msgid("the render nodes, Level Zero's libraries, i915 and xe in the kernel's log, PyTorch's "
            "build"),
      msgid("change the groups of the device files, or install the compute runtime, a newer "
            "kernel or PyTorch's XPU build"),
      msgid("sycl-ls lists the GPU under level_zero")}},
    {"CTR03 CTR04 CTR05 CTR08 CTR09 CTR10",
     {msgid("the container engines of this machine, the container toolkit's settings, the CDI "
            "specifications, and what an image requires"),
      msgid("set up the toolkit (nvidia-ctk) and restart the engine"),
      msgid("nvidia-smi lists the GPU in a container that this engine starts")}},
    {"CTR15 CTR16",
     {msgid("the size of /dev/shm and the locked memory limit of the container"),
      msgid("start the container with a larger size or limit"),
      msgid("DataLoader workers and NCCL work with the present size and limit")}},
    {"CTR*",
     {msgid("inside the container: its kind, device nodes, device filter and user, and the "
            "libraries mounted into it"),
      msgid("start the container with other options"),
      msgid("nvidia-smi in the container lists the GPU")}},
    {"ENV01 ENV02 ENV03 ENV04 ENV05 ENV06",
     {msgid("variables that select GPUs, such as CUDA_VISIBLE_DEVICES, compared with the GPUs that "
            "the driver lists"),
      msgid("set another list, or unset the variable"),
      msgid("the program sees the intended number of GPUs: torch.cuda.device_count()")}},
    {"ENV*",
     {msgid("the variables that the program would get, and the files and folders that they name"),
      msgid("unset the variable, or set it to the value in the finding"),
      msgid("the program behaves the same without the variable")}},
    {"LIB*",
     {msgid("which file glibc's loader would use for each library (Berth simulates the loader), "
            "and the versions of wheels"),
      msgid("reinstall compatible packages, or remove a folder from LD_LIBRARY_PATH"),
      msgid("LD_DEBUG=libs shows another file, or a kernel runs: --deep")}},
    {"FW02 FW03 FW04 FW08 FW09 FW11 FW12 FW15 FW16 FW22 FW23",
     {msgid("the CUDA version and the GPUs that packages were built for, compared with this "
            "machine's driver and GPUs"),
      msgid("install a suitable build or a newer driver"),
      msgid("a kernel runs on every GPU: --deep")}},
    {"FW*",
     {msgid("what is installed in the Python, from its files: dist-info, conda-meta, extensions"),
      msgid("reinstall the package with the build in the finding"),
      msgid("a kernel runs on every GPU: --deep")}},
    {"CPU*",
     {msgid("the cores that the process may use, its CPU quota, thread variables, the CPU's "
            "instruction sets, copies of OpenMP"),
      msgid("change the number of threads or the quota, or install a build for this processor"),
      msgid("the report of berth run shows every core in use")}},
    {"RT02",
     {msgid("the amount in the pasted message, and the GPUs' memory as it is now"),
      msgid("use a smaller batch or another GPU, or end the process that holds the memory"),
      msgid("GPU memory use was different when the error occurred")}},
    {"ERR01",
     {msgid("the messages in the pasted text, and what the other rules found"),
      msgid("do the next step in the finding"),
      msgid("a later message in the same text shows another cause")}},
    {"RT14",
     {msgid("the free space and inodes of the file systems that programs write to"),
      msgid("delete files there, or set a variable to a folder on another file system"),
      msgid("df and df -i show free space")}},
    {"RT18",
     {msgid("the devices that the broker has set aside (gives to no job), and "
            "the process that holds each"),
      msgid("wait until the process has ended, or reboot"),
      msgid("berth jobs lists no device as set aside")}},
    {"RT*",
     {msgid("what the driver reports about memory, clocks, power and links now, and the limits of "
            "the process"),
      msgid("end the process, or change the limit or setting that the finding names"),
      msgid("a second reading shows another value")}},
    {"CMD01",
     {msgid("the libraries that the loader would find for the command's program"),
      msgid("install the package that contains the library"), msgid("ldd finds every library")}},
    {"PRB01",
     {msgid("one kernel on every GPU that a framework of the target sees"),
      msgid("fix the finding on a lower layer that explains it"),
      msgid("a second run of the kernel works")}},
});

}  // namespace

RuleWords words_of_rule(std::string_view id) {
  const auto is_of = [&](const Row& one) {
    for (const std::string_view pattern : split(one.rules, ' '))
      if (pattern.ends_with('*') ? id.starts_with(pattern.substr(0, pattern.size() - 1))
                                 : id == pattern)
        return true;
    return false;
  };
  const std::span<const Row> rows =
      id.starts_with("SRC") ? std::span<const Row>(kSourceRows) : std::span<const Row>(kRows);
  const auto row = std::find_if(rows.begin(), rows.end(), is_of);
  return row == rows.end() ? RuleWords{} : row->words;
}

}  // namespace berth::doctor
