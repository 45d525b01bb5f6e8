#include "doctor/knowledge/compatibility.hpp"

#include <doctest/doctest.h>

#include <set>

#include "doctor/knowledge/recipe.hpp"
#include "doctor/knowledge/version.hpp"

using namespace berth::doctor;

TEST_CASE("versions compare by their numbers, and ranges count by their own parts") {
  CHECK(is_older("12.8", "12.10"));
  CHECK(is_older("12.8", "12.8u1"));
  CHECK_FALSE(is_older("2.7.0.dev20250310+cu124", "2.7"));
  CHECK(in_range("2.14.1+cu130", "2.12-2.14"));
  CHECK_FALSE(in_range("2.15.0", "2.12-2.14"));
  CHECK(in_range("3.12", "3.10-3.14 (3.15 exp)"));
  CHECK_FALSE(in_range("", "2.1"));
  CHECK(cuda_of_tag("cu118") == "11.8");
  CHECK(cuda_of_tag("cu92") == "9.2");
  CHECK(cuda_of_tag("cpu").empty());
  CHECK(tag_of_cuda("12.6") == "cu126");
}

TEST_CASE("a driver serves every CUDA of its major, and before CUDA 11 only its own") {
  const Compatibility& known = shipped_compatibility();
  CHECK(known.cuda_of_driver("470.86") == "11.4");
  CHECK(known.cuda_of_driver("384.130") == "9.0");
  CHECK(known.cuda_of_driver("300.1").empty());
  CHECK(known.cuda_of_branch("535.247.01") == "12.2");
  CHECK(known.cuda_of_branch("551.78") == "12.4");
  CHECK(known.cuda_of_branch("565.57.01") == "12.7");
  CHECK(known.cuda_of_branch("570.20") == "12.8");
  CHECK(known.cuda_of_branch("387.26") == "9.1");
  CHECK(known.cuda_of_branch("340.108").empty());
  CHECK(known.driver_for("12.8") == "525.60.13");
  CHECK(known.driver_for("10.2") == "440.33");
  CHECK(known.driver_for("99.0").empty());
}

TEST_CASE("machine code serves later chips of its major only, and PTX what is newer") {
  const Compatibility& known = shipped_compatibility();
  const auto kernels = [&](const char* torch, const char* cuda, const char* capability) {
    return torch_kernels(known, torch, cuda, false, capability);
  };
  CHECK(kernels("2.8.0+cu128", "12.8", "6.1") == Kernels::kLacks);
  CHECK(kernels("2.8.0+cu126", "12.6", "6.1") == Kernels::kHas);
  CHECK(kernels("2.13.0", "13.0", "8.9") == Kernels::kHas);
  CHECK(kernels("2.13.0", "13.0", "12.1") == Kernels::kHas);
  CHECK(kernels("2.0.1+cu118", "11.8", "12.0") == Kernels::kLacks);
  // These PyTorch releases have no row. If the toolkit cannot compile for the GPU, the result is
  // kLacks; if it can, kUnknown.
  CHECK(kernels("2.7.0.dev20250310+cu124", "12.4", "12.0") == Kernels::kLacks);
  CHECK(kernels("3.0", "14.0", "12.0") == Kernels::kUnknown);
  CHECK(kernels("1.4.0", "10.1", "8.6") == Kernels::kLacks);
  CHECK(kernels("1.7.0", "11.0", "8.6") == Kernels::kHas);  // 8.6 can run code for 8.0
  CHECK(kernels("1.7.0", "9.2", "8.6") == Kernels::kLacks);
  CHECK(kernels("0.4.1", "8.0", "3.0") == Kernels::kLacks);
  // 2.10 has no row, but the rows before and after it give the same answer.
  CHECK(kernels("2.10.0", "12.6", "6.1") == Kernels::kHas);
}

TEST_CASE("a GPU is known by the longest beginning of its name") {
  const Compatibility& known = shipped_compatibility();
  CHECK(known.capability_of("NVIDIA A100-SXM4-40GB") == "8.0");
  CHECK(known.capability_of("NVIDIA A10") == "8.6");
  CHECK(known.capability_of("GeForce GTX 1050 Ti") == "6.1");
  CHECK(known.capability_of("GeForce RTX 2050") == "8.6");
  CHECK(known.capability_of("GeForce RTX 2060") == "7.5");
  CHECK(known.capability_of("NVIDIA GB102").empty());  // GB102 is another chip than GB10
  CHECK(known.capability_of("something new").empty());
}

TEST_CASE("a new release needs only a row of data") {
  const Compatibility known = compatibility_from(
      R"({"compat":{"cuda_minor_compat":{"rows":[{"major":15,"linux_min":"700.1"}]},
          "pytorch":{"rows":[{"v":"4.0","python":"3.20-3.22","cuda":["15.1"]}]},
          "pytorch_arch":{"rows":[{"v":"4.0","cu":"15.1","arch":["14.0"]}]}}})");
  Wish wish;
  wish.python = "3.21";
  wish.driver = "701.0";
  wish.capabilities = {"14.2"};
  const auto recipe = recipe_for(known, wish);
  REQUIRE(recipe);
  CHECK(recipe->build.cuda == "15.1");
  CHECK(compatibility_from("[1,").torch.empty());
  CHECK(compatibility_from(R"({"compat":{"pytorch":{"rows":[3,{"v":[]}]}}})").torch.size() == 2);
}

TEST_CASE("a GPU is found by its colloquial name") {
  const Compatibility& known = shipped_compatibility();
  for (const auto& named :
       {std::pair("RTX 4090", "8.9"), std::pair("4090", "8.9"), std::pair("rtx 3060 ti", "8.6"),
        std::pair("T4", "7.5"), std::pair("V100", "7.0"), std::pair("v100-sxm2-32gb", "7.0"),
        std::pair("GTX 1080 Ti", "6.1"), std::pair("1660", "7.5"), std::pair("P100", "6.0"),
        std::pair("h100", "9.0"), std::pair("nvidia a100", "8.0"), std::pair("A6000", "8.6"),
        std::pair("titan v", "7.0"), std::pair("RTX 6000 Ada", "8.9"), std::pair("5090", "12.0"),
        std::pair("Quadro RTX 4000", "7.5"), std::pair("T1000", "7.5"), std::pair("MX150", "6.1"),
        std::pair("GTX 780", "3.5"), std::pair("GTX 780M", "3.0"), std::pair("Tesla T4", "7.5"),
        std::pair("A100 PCIe 40GB", "8.0"), std::pair("Quadro M5000M / M5000 SE", "5.2"),
        std::pair("Voodoo", ""), std::pair("", ""),
        // Other notations, and names of vGPUs and of machines with several GPUs.
        std::pair("RTX4090", "8.9"), std::pair("rtx_4090", "8.9"), std::pair("GTX1080Ti", "6.1"),
        std::pair("GeForceRTX3080", "8.6"), std::pair("nvidia-tesla-t4", "7.5"),
        std::pair("TeslaV100", "7.0"), std::pair("RTXA6000", "8.6"), std::pair("GT 1030", "6.1"),
        std::pair("GT1030", "6.1"), std::pair("P106-100", "6.1"), std::pair("titanxp", "6.1"),
        std::pair("GRID A100-20C", "8.0"), std::pair("GRID A100D-80C", "8.0"),
        std::pair("GRID P40-4Q", "6.1"), std::pair("GRID RTX6000P-24Q", "7.5"),
        std::pair("NVIDIA A16-4Q", "8.6"), std::pair("NVIDIA RTX6000-Ada-48Q", "8.9"),
        std::pair("L40S-48Q", "8.9"), std::pair("NVIDIA H100XM-80C", "9.0"),
        std::pair("DGX H100", "9.0"), std::pair("DGX Spark", "12.1"), std::pair("GB10", "12.1"),
        std::pair("CMP 30HX", "7.5"), std::pair("CMP 170HX", "8.0"),
        std::pair("CMP 100-210", "7.0"), std::pair("GRID", ""), std::pair("DGX", ""),
        std::pair("GT 710", "3.5"), std::pair("GTX 580", "2.0"), std::pair("Tesla M2090", "2.0"),
        std::pair("Quadro K2100M", "3.0"), std::pair("GTX 850M", "5.0"), std::pair("Titan X", ""),
        std::pair("GTX Titan X", "5.2"), std::pair("Titan X (Pascal)", "6.1"),
        // The capability is unknown if the number is too long for the model, or if the text names
        // two GPUs.
        std::pair("H1000", ""), std::pair("T4000", ""), std::pair("RTX 30900", ""),
        std::pair("RTX 30", ""), std::pair("A100000", ""), std::pair("RTX 3090 and K80", ""),
        std::pair("RTX 3090 GTX 1080 Ti", "")}) {
    CAPTURE(named.first);
    CHECK(known.capability_as_said(named.first) == named.second);
  }
}

TEST_CASE("a name of several cards is ambiguous, and a vGPU counts as its physical GPU") {
  const Compatibility& known = shipped_compatibility();
  const std::vector<std::string> both{"GeForce GTX TITAN X", "TITAN X (Pascal)"};
  CHECK(known.several_of("titan-x") == both);
  for (const std::string& one : both) {
    CHECK(known.several_of(one).empty());
    CHECK_FALSE(known.capability_as_said(one).empty());
  }
  CHECK(known.several_of("RTX 4090").empty());
  // Several generations have a workstation card with this number, so only the full names have a
  // known capability.
  for (const char* name : {"RTX 4000", "rtx5000", "RTX-6000", "NVIDIA RTX 2000", "Titan"}) {
    CAPTURE(name);
    const auto cards = known.several_of(name);
    CHECK(cards.size() > 2);
    CHECK(known.capability_as_said(name).empty());
    std::set<std::string> capabilities;
    for (const std::string& card : cards) {
      CAPTURE(card);
      CHECK_FALSE(known.capability_as_said(card).empty());
      capabilities.insert(known.capability_as_said(card));
    }
    CHECK(capabilities.size() > 2);
  }
  CHECK(known.capability_as_said("A2000") == "8.6");
  CHECK(known.capability_as_said("Quadro RTX 4000") == "7.5");
  CHECK(known.capability_as_said("RTX 4000 Ada") == "8.9");
  CHECK(known.capability_as_said("RTX 6000 Pro") == "12.0");
  CHECK(known.capability_as_said("RTX 5000 Blackwell") == "12.0");
  CHECK(known.capability_of("GRID A100-20C") == "8.0");
  CHECK(known.capability_of("GRID T4-16Q") == "7.5");
  CHECK(known.capability_of("NVIDIA RTXA5000-6Q") == "8.6");
  CHECK(known.is_with_aarch64("dgx spark"));
  CHECK(known.is_with_aarch64("NVIDIA GH200 480GB"));
  CHECK_FALSE(known.is_with_aarch64("B300"));
}

TEST_CASE("a GPU without a compute capability is classified by its maker") {
  const Compatibility& known = shipped_compatibility();
  for (const auto& named :
       {std::pair("MI300X", "AMD"), std::pair("AMD Instinct MI250", "AMD"),
        std::pair("RX 7900 XTX", "AMD"), std::pair("Arc A770", "Intel"),
        std::pair("Orin", "Jetson"), std::pair("NVIDIA Jetson AGX Thor", "Jetson"),
        std::pair("MX150", ""), std::pair("Mickey", ""), std::pair("Quadro RTX 4000", ""),
        std::pair("A3800", ""), std::pair("", "")}) {
    CAPTURE(named.first);
    CHECK(known.other_maker(named.first) == named.second);
  }
}
