#include "run/gpu_files.hpp"

#include <doctest/doctest.h>

using namespace berth::run;

TEST_CASE("libraries and work nodes are found in a maps text, each once") {
  GpuFiles gpu_files;
  add_maps(
      "7f00-7f01 r-xp 00000000 08:01 12 /usr/lib/libtorch_cpu.so\n"
      "7f01-7f02 r--p 00000000 08:01 12 /usr/lib/libtorch_cpu.so\n"
      "7f02-7f03 r-xp 00000000 08:01 13 /opt/a "
      "b/numpy/_multiarray_umath.cpython-311-x86_64-linux-gnu.so\n"
      "7f04-7f05 r-xp 00000000 08:01 14 /usr/lib/libcuda.so.580.95.05 (deleted)\n"
      "7f06-7f07 rw-s 00000000 00:06 15 /dev/nvidia-uvm\n"
      "7f06-7f07 rw-s 00000000 00:06 15 /dev/zero (deleted)\n"
      "7f08-7f09 rw-p 00000000 00:00 0 [heap]\n"
      "7f0a-7f0b rw-p 00000000 00:00 0\n"
      "7f0c-7f0d r--p 00000000 08:01 16 /usr/lib/locale/C.utf8/LC_CTYPE",
      gpu_files);
  CHECK(gpu_files.files.size() == 3);
  CHECK(gpu_files.files.count("/usr/lib/libtorch_cpu.so") == 1);
  CHECK(gpu_files.files.count("/opt/a b/numpy/_multiarray_umath.cpython-311-x86_64-linux-gnu.so") ==
        1);
  CHECK(gpu_files.nodes.size() == 1);
  CHECK(gpu_files.nodes.count("/dev/nvidia-uvm") == 1);
}

TEST_CASE("nodes that monitoring opens are not work") {
  for (const char* node : {"/dev/nvidia-uvm", "/dev/kfd", "/dev/dri/renderD128", "/dev/dxg",
                           "/dev/accel0", "/dev/accel/accel3", "/dev/vfio/12"}) {
    CAPTURE(node);
    CHECK(is_work_node(node));
  }
  for (const char* node :
       {"/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm-tools", "/dev/null", "/dev/dri/card0",
        "/dev/dri/renderD", "/dev/dri/renderD128x", "/dev/vfio/vfio", "/dev/accelerometer", ""}) {
    CAPTURE(node);
    CHECK_FALSE(is_work_node(node));
  }
}

TEST_CASE("a GPU's own node and the driver's libraries are told from monitoring") {
  GpuFiles gpu_files;
  for (const char* node : {"/dev/nvidiactl", "/dev/nvidia-modeset", "/dev/nvidia0x", "/dev/nvidia"})
    add_descriptor(node, gpu_files);
  add_maps("0-1 r 0 0 0 /usr/lib/libnvidia-ml.so.1\n0-1 r 0 0 0 /usr/lib/libOpenCL.so.1\n",
           gpu_files);
  CHECK(gpu_files.gpu_nodes.empty());
  CHECK_FALSE(gpu_files.has_driver);
  add_descriptor("/dev/nvidia12", gpu_files);
  CHECK(gpu_files.gpu_nodes.count("/dev/nvidia12") == 1);
  CHECK(gpu_files.nodes.empty());
  add_maps("0-1 r 0 0 0 /usr/lib/libcuda.so.1\n", gpu_files);
  CHECK(gpu_files.has_driver);
}

TEST_CASE("a descriptor of another file than a device is ignored") {
  GpuFiles gpu_files;
  for (const char* target : {"pipe:[123]", "/home/x/dev/kfd", "socket:[1]", "/tmp/libcuda.so"})
    add_descriptor(target, gpu_files);
  CHECK(gpu_files.files.empty());
  CHECK(gpu_files.nodes.empty());
  add_descriptor("/dev/kfd", gpu_files);
  CHECK(gpu_files.nodes.count("/dev/kfd") == 1);
}

TEST_CASE("a hostile process cannot make us use unbounded memory") {
  GpuFiles gpu_files;
  for (std::size_t i = 0; i < 2 * GpuFiles::kMost; ++i)
    add_maps("0-1 r 0 0 0 /tmp/" + std::to_string(i) + ".so", gpu_files);
  CHECK(gpu_files.files.size() == GpuFiles::kMost);
  add_maps(std::string(100'000, '/'), gpu_files);
  add_maps("\n\n/\n\xff\xfe/\xff.so\n", gpu_files);
  CHECK(gpu_files.files.size() == GpuFiles::kMost);
}
