#include "doctor/error/error_text.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "base/file.hpp"
#include "doctor/error/next_steps.hpp"

using namespace berth::doctor;

namespace {

std::vector<std::string> names(std::string_view text) {
  std::vector<std::string> all;
  for (const Recognised& one : read_error_text(text)) all.push_back(one.name);
  return all;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a message is recognised although a terminal, an editor or a mail has changed it") {
  const Names expected{"driver-too-old"};
  CHECK(names("RuntimeError: The NVIDIA driver on your system is too old (found version 11040).") ==
        expected);
  CHECK(names("\x1b[31mThe NVIDIA\x1b[0m driver on\x1b]0;title\a your system\r\n is too old") ==
        expected);
  CHECK(names("> > The NVIDIA driver on your\n> > system is too old") == expected);
  std::string wide = "\xff\xfe";
  for (const char c : std::string_view("The NVIDIA driver on your system is too old\n"))
    wide += {c, '\0'};
  CHECK(names(wide) == expected);
  CHECK(names("驱动\xff\xfe: the nvidia driver on your system is too old") == expected);
}

TEST_CASE("the finding has the line of the text, in printable form") {
  const auto found = read_error_text(
      "Traceback (most recent call last):\r\n  File \"a.py\", line 3\r\n\x1b[1mAssertionError: "
      "Torch not compiled with CUDA enabled\x1b[0m\x07\r\n");
  REQUIRE(found.size() == 1);
  CHECK(found[0].line == 3);
  CHECK(found[0].text == "AssertionError: Torch not compiled with CUDA enabled\xef\xbf\xbd");
  CHECK(std::find(found[0].rules.begin(), found[0].rules.end(), "FW01") != found[0].rules.end());
}

TEST_CASE("messages with one cause come before messages with many causes, then by line") {
  CHECK(names("CUDA unknown error\nno kernel image is available for execution on the device\n"
              "Failed to initialize NVML: Driver/library version mismatch\n") ==
        Names{"no-kernels", "driver-mismatch", "unknown-error"});
}

TEST_CASE("parts of a message belong together only if they are close") {
  CHECK(names("libcudart.so.12: cannot open shared object file") == Names{"missing-library"});
  CHECK(names("libcudart.so.12 is fine" + std::string(400, '.') +
              "libfoo.so: cannot open shared object file")
            .empty());
}

TEST_CASE("similar texts about something else are not recognised") {
  CHECK(names("").empty());
  CHECK(names("epoch 3 loss 0.12\nsaved checkpoint.pt\n").empty());
  CHECK(names("RuntimeError: [enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't "
              "allocate memory: you tried to allocate 8 bytes") == Names{"host-memory"});
  CHECK(names("ModuleNotFoundError: No module named 'torchmetrics'").empty());
}

TEST_CASE("out-of-memory messages of each framework are recognised") {
  for (const char* text :
       {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "Allocation on device 0 would exceed allowed memory. (out of memory)",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
        "allocate 8 bytes.",
        "ResourceExhaustedError: OOM when allocating tensor with shape[64,512]",
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8 bytes"})
    CHECK(names(text) == Names{"out-of-memory"});
}

TEST_CASE("messages of modprobe, schedulers and servers are recognised") {
  CHECK(names("modprobe: ERROR: could not insert 'nvidia': Key was rejected by service") ==
        Names{"module-rejected"});
  CHECK(names("modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.0") ==
        Names{"no-module-file"});
  CHECK(names("modprobe: ERROR: could not insert 'nvidia': No such device") ==
        Names{"gpu-not-started"});
  CHECK(names("RuntimeError: Failed to infer device type") == Names{"no-gpu-wanted"});
  CHECK(names("RuntimeError: No HIP GPUs are available") == Names{"no-hip-device"});
  CHECK(names("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.") == Names{"pod"});
  CHECK(names("ImportError: /tmp/x/cuda_utils.so: failed to map segment from shared object") ==
        Names{"noexec"});
  CHECK(names("modprobe: ERROR: could not insert 'zfs': No such device").empty());
}

TEST_CASE("hostile text takes little time") {
  CHECK(names(std::string(8 << 20, '\x1b')).empty());
  CHECK(names(std::string("\x1b]") + std::string(1 << 20, 'x')).empty());
  std::string many;
  while (many.size() < (2 << 20)) many += "libcublas";
  CHECK(names(many).empty());
  // Only the end of a long text is searched.
  CHECK(names(std::string(6 << 20, '\n') + "invalid device ordinal") == Names{"bad-ordinal"});
}

TEST_CASE("every row of the table is well formed") {
  std::set<std::string> seen;
  for (const Signature& row : signatures()) {
    CAPTURE(row.words);
    CHECK(seen.insert(row.words).second);
    CHECK((row.strength == 1 || row.strength == 2));
    for (const char c : std::string_view(row.words)) CHECK_FALSE((c >= 'A' && c <= 'Z'));
    // The text in a row's `words` must be recognized as the message of this row.
    std::string text = row.words;
    std::replace(text.begin(), text.end(), '*', ' ');
    const auto found = names(text);
    CHECK(std::find(found.begin(), found.end(), row.name) != found.end());
  }
}

TEST_CASE("an out-of-memory finding shows PyTorch's numbers") {
  const auto means = [](std::string_view text) { return read_error_text(text).at(0).means; };
  CHECK(means("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a "
              "total capacity of 23.64 GiB of which 1.21 GiB is free. Process 4121 has 7.50 GiB "
              "memory in use. Including non-PyTorch memory, this process has 14.90 GiB memory in "
              "use. Of the allocated memory 12.10 GiB is allocated by PyTorch, and 2.30 GiB is "
              "reserved by PyTorch but unallocated.") ==
        "the GPU's memory ran out: 2.00 GiB was requested and 1.21 GiB was free; other processes "
        "held 7.5 GiB (berth ps shows them); PyTorch had 2.30 GiB reserved but unused, in pieces "
        "that were too small; set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
  CHECK(means("RuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 23.65 GiB "
              "total capacity; 20.53 GiB already allocated; 55.06 MiB free; 20.58 GiB reserved in "
              "total by PyTorch)") ==
        "the GPU's memory ran out: 512.00 MiB was requested and 55.06 MiB was free");
  CHECK(means("CUDA out of memory. Tried to allocate") == "the GPU's memory ran out");
  CHECK(means("CUDA out of memory. Tried to allocate 2..0.. GiB is free process 1 has") ==
        "the GPU's memory ran out");
}

TEST_CASE("line numbers count from the start of the text, even if only its end is searched") {
  std::string text;
  for (int i = 0; i < 700'000; ++i) text += "12345678\n";  // 6.3 MB
  text += "invalid device ordinal\n";
  const auto found = read_error_text(text, 10);
  REQUIRE(found.size() == 1);
  CHECK(found[0].line == 700'011);
}

TEST_CASE("the toolkit's legacy hook is recognised by ldconfig's failure (case F082)") {
  const auto found = read_error_text(
      "nvidia-container-cli: ldcache error: process /sbin/ldconfig terminated with signal 9\n");
  REQUIRE_FALSE(found.empty());
  CHECK(found[0].name == "legacy-hook");
  CHECK(found[0].means.find("nvidia-container-runtime.mode=cdi") != std::string::npos);
}

TEST_CASE("errors unrelated to the driver have their own names") {
  const auto only = [](const char* text) {
    const auto found = names(text);
    return found.size() == 1 ? found.front() : std::to_string(found.size());
  };
  CHECK(only("RuntimeError: MPS backend out of memory (MPS allocated: 9.07 GB)") == "mac-memory");
  CHECK(only("torch.OutOfMemoryError: XPU out of memory. Tried to allocate 2.00 GiB.") ==
        "xpu-memory");
  CHECK(only("RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED") == "out-of-memory");
  CHECK(only("numpy.core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB for an array "
             "with shape (100000, 100000)") == "host-memory");
  CHECK(only("MemoryError: Unable to allocate 4.00 GiB for an array") == "host-memory");
  CHECK(only("RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/"
             "tcp/pair.cc:144] no error") == "peers");
  CHECK(only("ModuleNotFoundError: No module named 'torch'") == "no-torch");
  CHECK(only("The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in "
             "use). The server socket has failed to listen on any local network address.") ==
        "port-taken");
  CHECK(only("torch.distributed.DistNetworkError: port: 29500, code: -98, name: EADDRINUSE") ==
        "port-taken");
  CHECK(only("ERROR: No matching distribution found for tensorflow-gpu") == "tensorflow-gpu");
  CHECK(only("The \"tensorflow-gpu\" package has been removed!") == "tensorflow-gpu");
}

TEST_CASE("NCCL's out-of-memory error is about memory, not about communication") {
  for (const char* text :
       {"torch.distributed.DistBackendError: NCCL error: unhandled cuda error, NCCL version 2.19\n"
        "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
        "Cuda failure 'out of memory'",
        "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
        "Cuda failure 2 'out of memory'"})
    CHECK(names(text) == Names{"out-of-memory"});
  CHECK(names("ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure "
              "'invalid argument'") == Names{"nccl"});
}

TEST_CASE("every known message has a next step") {
  for (const Signature& row : signatures()) {
    CAPTURE(row.name);
    CHECK_FALSE(next_steps(row.name, row.rules).empty());
  }
  CHECK(next_steps("out-of-memory", "RT02").front().command == "berth ps");
  for (const auto& step : next_steps("xpu-memory", "RT02"))
    CHECK(step.command.find("PYTORCH_CUDA") == std::string::npos);
  CHECK(next_steps("fork", "SRC34 ENV22").front().command.find("spawn") != std::string::npos);
}
