// Behaviour of the simulated driver: initialisation, handles, sizes, versions, functions that an
// old driver lacks, faults.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>
#include <test_paths.hpp>

#include "base/file.hpp"
#include "simulator/simulated.hpp"

TEST_CASE("every name of the driver's library is there, and those that came later are not") {
  const Simulated now("dgx-h100-8"), old("driver-470");
  std::set<std::string> newer;
  const auto since = berth::slurp(BERTH_SOURCE_DIR "/simulator/nvml_since.txt");
  REQUIRE(since);
  std::size_t hidden_now = 0;
  for (const std::string_view line : berth::split(*since, '\n')) {
    const auto blank = line.find(' ');
    if (line.empty() || line[0] == '#') continue;
    const auto branch = berth::to_number(line.substr(blank + 1));
    REQUIRE(branch);
    if (*branch > 470) newer.emplace(line.substr(0, blank));
    if (*branch > 580) ++hidden_now;
  }
  CHECK(newer.size() > 100);
  std::size_t missing_now = 0;
  for (const std::string_view name : berth::sim::driver_functions()) {
    const std::string word(name);
    CAPTURE(word);
    CHECK((old.find(word.c_str()) == nullptr) == (newer.count(word) == 1));
    if (now.find(word.c_str()) == nullptr) ++missing_now;
  }
  CHECK(missing_now == hidden_now);
}

TEST_CASE("before initialisation, and after the last shutdown, every call says so") {
  const Simulated driver("lab-4x3090");
  std::uint32_t count = 0;
  CHECK(driver.call("nvmlDeviceGetCount_v2", &count) == NVML_ERROR_UNINITIALIZED);
  CHECK(driver.call("nvmlUnitGetFanSpeedInfo") == NVML_ERROR_UNINITIALIZED);
  CHECK(driver.call("nvmlShutdown") == NVML_ERROR_UNINITIALIZED);
  CHECK(driver.begin() == NVML_SUCCESS);
  CHECK(driver.begin() == NVML_SUCCESS);
  CHECK(driver.call("nvmlShutdown") == NVML_SUCCESS);
  CHECK(driver.call("nvmlDeviceGetCount_v2", &count) == NVML_SUCCESS);
  CHECK(count == 4);
  CHECK(driver.call("nvmlShutdown") == NVML_SUCCESS);
  CHECK(driver.call("nvmlDeviceGetCount_v2", &count) == NVML_ERROR_UNINITIALIZED);
  CHECK(driver.calls("nvmlInit_v2") == 2);
  CHECK(driver.calls("nvmlDeviceGetCount_v2") ==
        2);  // the very first call is not counted: there were no counters yet
}

TEST_CASE("functions that are not simulated return NOT_SUPPORTED, and are counted") {
  const Simulated driver("lab-4x3090");
  REQUIRE(driver.begin() == NVML_SUCCESS);
  CHECK(driver.call("nvmlVgpuTypeGetLicense", 0U, nullptr, 0U) == NVML_ERROR_NOT_SUPPORTED);
  CHECK(driver.calls("nvmlVgpuTypeGetLicense") == 1);
}

TEST_CASE("wrong handles and null pointers are invalid arguments") {
  const Simulated driver("lab-4x3090");
  REQUIRE(driver.begin() == NVML_SUCCESS);
  const nvmlDevice_t good = driver.device(0);
  char text[96];
  std::uint32_t number = 0;
  nvmlDevice_t handle = nullptr;
  CHECK(driver.call("nvmlDeviceGetName", nvmlDevice_t{nullptr}, text, 96U) ==
        NVML_ERROR_INVALID_ARGUMENT);
  CHECK(driver.call("nvmlDeviceGetName", reinterpret_cast<nvmlDevice_t>(text), text, 96U) ==
        NVML_ERROR_INVALID_ARGUMENT);
  auto* between = reinterpret_cast<nvmlDevice_t>(reinterpret_cast<char*>(good) + 1);
  CHECK(driver.call("nvmlDeviceGetName", between, text, 96U) == NVML_ERROR_INVALID_ARGUMENT);
  CHECK(driver.call("nvmlDeviceGetName", good, static_cast<char*>(nullptr), 96U) ==
        NVML_ERROR_INVALID_ARGUMENT);
  CHECK(driver.call("nvmlDeviceGetPowerUsage", good, static_cast<std::uint32_t*>(nullptr)) ==
        NVML_ERROR_INVALID_ARGUMENT);
  CHECK(driver.call("nvmlDeviceGetHandleByIndex_v2", 4U, &handle) == NVML_ERROR_INVALID_ARGUMENT);
  CHECK(driver.call("nvmlDeviceGetHandleByUUID", "GPU-none", &handle) == NVML_ERROR_NOT_FOUND);
  CHECK(driver.call("nvmlDeviceGetHandleByPciBusId_v2", "nonsense", &handle) ==
        NVML_ERROR_INVALID_ARGUMENT);
  CHECK(driver.call("nvmlDeviceGetHandleByPciBusId_v2", "00000000:68:00.0", &handle) ==
        NVML_SUCCESS);
  CHECK(handle == driver.device(1));
  CHECK(driver.call("nvmlDeviceGetTemperature", good,
                    nvmlTemperatureSensors_t{NVML_TEMPERATURE_GPU}, &number) == NVML_SUCCESS);
  CHECK(driver.call("nvmlDeviceGetTemperature", good, static_cast<nvmlTemperatureSensors_t>(9),
                    &number) == NVML_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("a text that does not fit is not truncated") {
  const Simulated driver("lab-4x3090");
  REQUIRE(driver.begin() == NVML_SUCCESS);
  char text[96];
  CHECK(driver.call("nvmlDeviceGetName", driver.device(0), text, 8U) ==
        NVML_ERROR_INSUFFICIENT_SIZE);
  CHECK(driver.call("nvmlDeviceGetName", driver.device(0), text, 96U) == NVML_SUCCESS);
  CHECK(std::string(text) == "NVIDIA GeForce RTX 3090");
  CHECK(driver.call("nvmlDeviceGetUUID", driver.device(0), text, 96U) == NVML_SUCCESS);
  CHECK(std::string(text).size() == 40);
}

TEST_CASE("versioned structs must carry the version of their size") {
  const Simulated driver("lab-4x3090");
  REQUIRE(driver.begin() == NVML_SUCCESS);
  const nvmlDevice_t device = driver.device(0);
  nvmlMemory_v2_t memory{};
  for (const std::uint32_t wrong : {0U, 2U, 0x01000028U, 0x02000018U}) {
    memory.version = wrong;
    CHECK(driver.call("nvmlDeviceGetMemoryInfo_v2", device, &memory) ==
          NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  }
  memory.version = 0x02000028;
  CHECK(driver.call("nvmlDeviceGetMemoryInfo_v2", device, &memory) == NVML_SUCCESS);
  nvmlMemory_t first{};
  CHECK(driver.call("nvmlDeviceGetMemoryInfo", device, &first) == NVML_SUCCESS);
  CHECK(first.used == memory.used + memory.reserved);
  CHECK(first.total == first.used + first.free);
  CHECK(memory.total == memory.used + memory.reserved + memory.free);
}

TEST_CASE(
    "a machine without NVIDIA, a driver that is not loaded, of another version or closed to us "
    "fails at the start") {
  CHECK(Simulated("none").begin() == NVML_ERROR_LIBRARY_NOT_FOUND);
  CHECK(Simulated("amd-2x7900xtx").begin() == NVML_ERROR_LIBRARY_NOT_FOUND);
  CHECK(Simulated("lab-4x3090", 0, {"no-driver"}).begin() == NVML_ERROR_DRIVER_NOT_LOADED);
  CHECK(Simulated("lab-4x3090", 0, {"mismatch"}).begin() == NVML_ERROR_LIB_RM_VERSION_MISMATCH);
  CHECK(Simulated("lab-4x3090", 0, {"no-permission"}).begin() == NVML_ERROR_NO_PERMISSION);
  CHECK(Simulated("lab-4x3090", 0, {"no-driver@31"}).begin() ==
        NVML_SUCCESS);  // the fault begins later
}

TEST_CASE("a lost device has no handle and the others go on") {
  const Simulated driver("lab-4x3090", 0, {"lost:2", "no-permission:3"});
  REQUIRE(driver.begin() == NVML_SUCCESS);
  std::uint32_t count = 0, milliwatts = 0;
  nvmlDevice_t handle = nullptr;
  CHECK(driver.call("nvmlDeviceGetCount_v2", &count) == NVML_SUCCESS);
  CHECK(count == 4);
  CHECK(driver.call("nvmlDeviceGetHandleByIndex_v2", 2U, &handle) == NVML_ERROR_GPU_IS_LOST);
  CHECK(driver.call("nvmlDeviceGetHandleByIndex_v2", 3U, &handle) == NVML_ERROR_NO_PERMISSION);
  CHECK(driver.call("nvmlDeviceGetPowerUsage", driver.device(1), &milliwatts) == NVML_SUCCESS);
}

TEST_CASE("a hung device blocks forever, but its name is known, and the caller can be killed") {
  const Simulated driver("lab-4x3090", 0, {"hung:1"});
  REQUIRE(driver.begin() == NVML_SUCCESS);
  char text[96];
  CHECK(driver.call("nvmlDeviceGetName", driver.device(1), text, 96U) == NVML_SUCCESS);
  const pid_t waiting = fork();
  if (waiting == 0) {
    std::uint32_t milliwatts = 0;
    driver.call("nvmlDeviceGetPowerUsage", driver.device(1), &milliwatts);
    _exit(0);
  }
  usleep(50'000);
  int status = 0;
  CHECK(waitpid(waiting, &status, WNOHANG) == 0);
  kill(waiting, SIGKILL);
  CHECK(waitpid(waiting, &status, 0) == waiting);
  CHECK(WIFSIGNALED(status));
}

TEST_CASE("processes that attach to a sleeping GPU are counted, others are not") {
  const Simulated quiet("laptop-4060"), loud("laptop-4060");
  std::uint32_t count = 0;
  CHECK(quiet.begin("nvmlInitWithFlags", NVML_INIT_FLAG_NO_ATTACH) == NVML_SUCCESS);
  CHECK(quiet.call("nvmlDeviceGetCount_v2", &count) == NVML_SUCCESS);
  CHECK(count == 1);  // NVML does not list the Intel GPU
  CHECK(quiet.wakes(0) == 0);
  CHECK(quiet.call("nvmlDeviceGetPowerUsage", quiet.device(0), &count) == NVML_SUCCESS);
  CHECK(quiet.wakes(0) == 2);
  CHECK(loud.begin() == NVML_SUCCESS);
  CHECK(loud.wakes(0) == 1);
}

TEST_CASE("an Xid is delivered once to a program that waits for it") {
  const Simulated driver("lab-4x3090", 0, {"xid:1@5=48"});
  REQUIRE(driver.begin() == NVML_SUCCESS);
  nvmlEventSet_t set = nullptr;
  nvmlEventData_t event{};
  REQUIRE(driver.call("nvmlEventSetCreate", &set) == NVML_SUCCESS);
  CHECK(driver.call("nvmlEventSetWait_v2", set, &event, 1U) == NVML_ERROR_TIMEOUT);
  CHECK(driver.call("nvmlDeviceRegisterEvents", driver.device(1), NVML_EVENT_XID, set) ==
        NVML_SUCCESS);
  CHECK(driver.call("nvmlEventSetWait_v2", set, &event, 1U) == NVML_SUCCESS);
  CHECK(event.device == driver.device(1));
  CHECK(event.eventType == NVML_EVENT_XID);
  CHECK(event.eventData == 48);
  CHECK(driver.call("nvmlEventSetWait_v2", set, &event, 1U) == NVML_ERROR_TIMEOUT);
  CHECK(driver.call("nvmlEventSetFree", set) == NVML_SUCCESS);
}

TEST_CASE("an Xid is not delivered to a program that waits after another has had it") {
  const Simulated driver("lab-4x3090", 0, {"xid:1@5=48"});
  REQUIRE(driver.begin() == NVML_SUCCESS);
  const auto registered = [&] {
    nvmlEventSet_t set = nullptr;
    CHECK(driver.call("nvmlEventSetCreate", &set) == NVML_SUCCESS);
    CHECK(driver.call("nvmlDeviceRegisterEvents", driver.device(1), NVML_EVENT_XID, set) ==
          NVML_SUCCESS);
    return set;
  };
  const auto wait = [&](nvmlEventSet_t set) {
    nvmlEventData_t event{};
    return driver.call("nvmlEventSetWait_v2", set, &event, 1U);
  };
  nvmlEventSet_t const first = registered();
  nvmlEventSet_t const beside = registered();
  CHECK(wait(first) == NVML_SUCCESS);
  CHECK(wait(beside) == NVML_SUCCESS);
  nvmlEventSet_t const later = registered();
  CHECK(wait(later) == NVML_ERROR_TIMEOUT);
  for (nvmlEventSet_t set : {first, beside, later})
    CHECK(driver.call("nvmlEventSetFree", set) == NVML_SUCCESS);
}

TEST_CASE("a library without a state, or with a damaged one, has no driver") {
  const Simulated driver("lab-4x3090");
  setenv("BERTH_SIM_DIR", "/nonexistent", 1);
  CHECK(driver.call("nvmlInit_v2") == NVML_ERROR_DRIVER_NOT_LOADED);
  unsetenv("BERTH_SIM_DIR");
  CHECK(driver.call("nvmlInit_v2") == NVML_ERROR_DRIVER_NOT_LOADED);
}
