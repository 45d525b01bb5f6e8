#include "doctor/error/next_steps.hpp"

#include <array>
#include <string>

#include "base/text.hpp"

namespace berth::doctor {
namespace {

struct Step {
  std::string_view message;
  const char* command;  // "" if no command helps
  const char* says;     // msgid
};

constexpr auto kSteps = std::to_array<Step>({
    {"out-of-memory", "berth ps", msgid("which processes hold the GPU's memory")},
    {"out-of-memory", "",
     msgid("halve the batch until it fits, and accumulate gradients over twice the steps")},
    {"out-of-memory", "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
     msgid("for PyTorch, if the message says that much memory is reserved but unallocated")},
    {"xpu-memory", "berth ps", msgid("which processes hold the GPU's memory")},
    {"xpu-memory", "",
     msgid("halve the batch until it fits, and accumulate gradients over twice the steps")},
    {"mac-memory", "",
     msgid("halve the batch until it fits, and accumulate gradients over twice the steps")},
    {"mac-memory", "export PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0",
     msgid("removes PyTorch's limit; macOS then swaps")},
    {"host-memory", "ps aux --sort=-rss | head",
     msgid("which processes hold the machine's memory")},
    {"host-memory", "",
     msgid("use fewer DataLoader workers, or read arrays in parts (numpy.memmap)")},
    {"cpu-pytorch", "device = \"cuda\" if torch.cuda.is_available() else \"cpu\"",
     msgid("in the program, so that it also runs without a GPU")},
    {"cpu-pytorch", "berth doctor -- python train.py",
     msgid("on a machine with a GPU: shows which Python runs, and which PyTorch to install")},
    {"no-torch", "berth doctor -- python train.py",
     msgid("shows which Python the command starts: activate the environment that has PyTorch")},
    {"no-torch", "python -m pip install torch", msgid("installs it for the Python of that name")},
    {"port-taken", "torchrun --standalone --nproc-per-node=gpu train.py",
     msgid("chooses a free port; for several machines set another --rdzv-endpoint")},
    {"port-taken", "ss -ltnp | grep 29500",
     msgid("which process holds the port of init_process_group; end it if it is an earlier run")},
    {"peers", "ip -br addr",
     msgid("lists the interfaces; choose the one that reaches the other machines: export "
           "GLOO_SOCKET_IFNAME=eth0")},
    {"peers", "getent hosts \"$(hostname)\"",
     msgid("other machines cannot reach 127.0.0.1 or 127.0.1.1: correct /etc/hosts")},
    {"tensorflow-gpu", "python -m pip install 'tensorflow[and-cuda]'",
     msgid("for Linux and WSL2; on native Windows the last version with GPU support is 2.10")},
    {"nccl", "NCCL_DEBUG=WARN torchrun --nproc-per-node=gpu train.py",
     msgid("NCCL then says which call failed")},
    {"launch-failure", "CUDA_LAUNCH_BLOCKING=1 python train.py",
     msgid("the traceback then ends at the call that failed")},
    {"fork", "torch.multiprocessing.set_start_method(\"spawn\")",
     msgid("in the program, before anything else; berth doctor FILE finds the line")},
    {"shared-memory", "df -h /dev/shm", msgid("its size; docker run --shm-size=8g gives more")},
    {"limits", "ulimit -n 65536",
     msgid("in the shell that starts the program; ulimit -a lists all")},
    {"bad-ordinal", "berth ls", msgid("lists the installed GPUs with their numbers")},
    {"device-busy", "berth ps", msgid("which processes use the GPU")},
});

}  // namespace

std::vector<model::Fix> next_steps(std::string_view message, std::string_view rules) {
  std::vector<model::Fix> steps;
  for (const Step& step : kSteps)
    if (step.message == message) steps.push_back({step.command, std::string(tr(step.says))});
  if (!steps.empty()) return steps;
  if (rules.starts_with("SRC"))
    return {{"berth doctor train.py", std::string(tr("finds the line in the program"))}};
  return {
      {"berth doctor -- python train.py",
       std::string(tr(
           "run it where the error occurred: it checks that command's own Python and variables"))}};
}

}  // namespace berth::doctor
