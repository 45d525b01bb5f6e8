#include "doctor/rule_words.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::doctor {
namespace {

struct Row {
  std::string_view rules;  // ids, blank separated; "FW*" is all that begin so. The first row counts
  RuleWords words;
};
/// Of a line in a file its own row says what it is and what mends it.
constexpr auto kSourceRows = std::to_array<Row>({
    {"SRC01",
     {"", "", msgid("a node whose mode is another on purpose, and users who are in its group")}},
    {"SRC02 SRC03 SRC04",
     {"", "", msgid("nvidia-smi that does not list the program while it runs")}},
    {"SRC05 SRC07 SRC37",
     {"", "",
      msgid("torch.cuda.device_count() of the program itself: as many as the list has, and those "
            "by their uuid")}},
    {"SRC06 SRC08 SRC40",
     {"", "",
      msgid("what the variable should change, seen to be changed; for LD_LIBRARY_PATH by "
            "/proc/self/maps")}},
    {"SRC09 SRC10 SRC16 SRC18 SRC19 SRC20 SRC23 SRC28",
     {"", "",
      msgid("an older release that is wanted on purpose, with a GPU and driver of its time")}},
    {"SRC12 SRC13 SRC14 SRC15 SRC32 SRC36",
     {"", "", msgid("torch.cuda.max_memory_allocated() that is as high without the line")}},
    {"SRC17",
     {"", "", msgid("/proc/PID/maps that shows the library in use where the line has put it")}},
    {"SRC24 SRC25 SRC29 SRC30 SRC33 SRC35",
     {"", "",
      msgid("a step that takes as long without the line, timed with "
            "torch.cuda.synchronize() around it")}},
    {"SRC26 SRC27 SRC34 SRC38 SRC39",
     {"", "",
      msgid("nvidia-smi with each process on the GPU that it should have, and data that no "
            "other has")}},
    {"SRC*", {"", "", msgid("a run without the line that does the same")}},
});
constexpr auto kRows = std::to_array<Row>({
    {"HW05 HW06 HW07 HW09 HW11 HW12 HW13",
     {msgid("each PCIe link's width, speed and error counters, ACS, the IOMMU and the NUMA node, "
            "in /sys/bus/pci"),
      msgid("the slot or riser, a setting of the BIOS, a parameter of the kernel, or cores near "
            "the GPU"),
      msgid("a transfer under load that is as fast as the link should be")}},
    {"HW*",
     {msgid("the PCI bus: which GPUs it shows, their drivers, memory windows and power states; the "
            "kernel's log"),
      msgid("slot, power and BIOS, what the hypervisor passes through, or which driver is bound"),
      msgid("a driver that lists every GPU: nvidia-smi -L, rocminfo")}},
    {"DRV11 DRV12 DRV13 DRV14 DRV22",
     {msgid(
          "the nodes in /dev and who may open them, nvidia_uvm, MPS's pipe, what cuInit() returns"),
      msgid("the node made anew, a group for the user, nvidia_uvm loaded again"),
      msgid("cuInit() that returns 0 for this user")}},
    {"DRV15 DRV16 DRV19 DRV20 DRV21 DRV25 DRV26 DRV27 DRV28 DRV29 DRV30",
     {msgid("what the driver answers to NVML's questions, in a child with a deadline, and the "
            "services beside it"),
      msgid("the service, mode or reset that the finding names"),
      msgid("nvidia-smi -q that shows another value")}},
    {"DRV23 DRV24 RT12",
     {msgid("the kernel's log since the start, held against the catalogue of messages"),
      msgid("what the catalogue has for that message"),
      msgid("a reset or a start since, and no new line")}},
    {"DRV*",
     {msgid("the modules that are loaded and those on the disk, their versions, Secure Boot, the "
            "driver's libraries, the kernel's log"),
      msgid("a module that is installed, built or signed for this kernel, and a restart"),
      msgid("nvidia-smi that answers: library and module are then of one version")}},
    {"WSL*",
     {msgid("the folder of Windows' driver (/usr/lib/wsl), /dev/dxg, and what is installed inside"),
      msgid("the driver on Windows' side, and none of Linux' inside"),
      msgid("/usr/lib/wsl/lib/nvidia-smi that lists the GPU")}},
    {"AMD*",
     {msgid("ROCm's list of GPUs (/sys/class/kfd), /dev/kfd and the render nodes, ROCm's "
            "libraries, the kernel's log"),
      msgid("the groups of the nodes, firmware or kernel, or a build that has code for the GPU"),
      msgid("rocminfo that lists the GPU, and a kernel that runs: --deep")}},
    {"XPU*",
     {msgid("the render nodes, Level Zero's libraries, i915 and xe in the kernel's log, PyTorch's "
            "build"),
      msgid("the groups of the nodes, the compute runtime, a newer kernel, or PyTorch's XPU build"),
      msgid("sycl-ls that lists the GPU under level_zero")}},
    {"CTR03 CTR04 CTR05 CTR08 CTR09 CTR10",
     {msgid("the container engines of this machine, the container toolkit's settings, CDI's "
            "descriptions, what an image wants"),
      msgid("the toolkit's setup (nvidia-ctk) and a restart of the engine"),
      msgid("a container started with the GPU in which nvidia-smi lists it")}},
    {"CTR15 CTR16",
     {msgid("the size of /dev/shm and the limit of locked memory that the container has"),
      msgid("the size or limit that the container is started with"),
      msgid("loaders and NCCL that run with what is there")}},
    {"CTR*",
     {msgid("from inside: the kind of container, its nodes, device filter, user, and the libraries "
            "that were passed in"),
      msgid("how the container is started"),
      msgid("nvidia-smi in the container that lists the GPU")}},
    {"ENV01 ENV02 ENV03 ENV04 ENV05 ENV06",
     {msgid("the lists of visible devices in the variables, held against the GPUs that the driver "
            "lists"),
      msgid("another list, or the variable unset"),
      msgid("a program that counts as many GPUs as were meant: torch.cuda.device_count()")}},
    {"ENV*",
     {msgid("the variables that the program would get, and the files and folders that they name"),
      msgid("the variable unset, or the value that the finding names"),
      msgid("the same program, no different without the variable")}},
    {"LIB*",
     {msgid("which file the loader would take for each library (a simulation of glibc's), and the "
            "versions of wheels"),
      msgid("packages that fit installed anew, or a folder taken out of LD_LIBRARY_PATH"),
      msgid("LD_DEBUG=libs that names another file, or a kernel that runs: --deep")}},
    {"FW02 FW03 FW04 FW08 FW09 FW11 FW12 FW15 FW16 FW22 FW23",
     {msgid(
          "for which CUDA and GPUs the packages were built, held against the driver and the GPUs"),
      msgid("a build that fits, or a newer driver"),
      msgid("a kernel that runs on every GPU: --deep")}},
    {"FW*",
     {msgid("what is installed in the Python, from its files: dist-info, conda-meta, extensions"),
      msgid("the package installed anew, with the build that the finding names"),
      msgid("a kernel that runs on every GPU: --deep")}},
    {"CPU*",
     {msgid("the cores that the process may use, its quota, threads' variables, the processor's "
            "instructions, copies of OpenMP"),
      msgid("the number of threads, the quota, or a build for this processor"),
      msgid("a job whose report shows every core in use: berth run")}},
    {"RT02",
     {msgid("the amount in the pasted message, and the GPUs' memory as it is now"),
      msgid("a smaller batch, another GPU, or an end for who holds the memory"),
      msgid("memory that was another at that time")}},
    {"RT14",
     {msgid("how much room, and how many inodes, the file systems have that programs write to"),
      msgid("what fills them deleted, or a variable that leads elsewhere"),
      msgid("df and df -i that show room")}},
    {"RT*",
     {msgid("what the driver says of memory, clocks, power and links now, and the limits of the "
            "process"),
      msgid("what the finding names: who holds it, a limit, or a setting"),
      msgid("another reading when it is asked again")}},
    {"CMD01",
     {msgid("the libraries that the loader would find for the command's program"),
      msgid("the package that has the library"), msgid("ldd that finds every library")}},
    {"PRB01",
     {msgid("one kernel on every GPU that a framework of the target sees"),
      msgid("what explains it on a lower layer"), msgid("a second try that runs")}},
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
