#include "inventory/nvml_words.hpp"

#include "base/text.hpp"
#include "base/units.hpp"

namespace berth::inventory {

namespace {

void set(model::Driver& driver, std::string_view state, std::string_view id, std::string message,
         std::string hint) {
  driver.state = state;
  driver.error_id = id;
  driver.message = std::move(message);
  driver.hint = std::move(hint);
}

std::string look_yourself() {
  return "nvidia-smi";
}
std::string kernel_log() {
  return "sudo dmesg | grep -iE 'nvrm|xid'";
}

}  // namespace

void describe_failure(const frames::Failed& failed, const std::string& library,
                      model::Driver& driver) {
  if (failed.id == "E0301") {
    set(driver, "error", "E0301",
        text("there is an NVIDIA GPU, but the library {} of its driver is not installed", library),
        text("install NVIDIA's driver; in a container: start it with --gpus all "
             "(nvidia-container-toolkit)"));
  } else if (failed.id == "E0302") {
    set(driver, "error", "E0302", failed.detail, text("install NVIDIA's driver again"));
  } else if (failed.id == "E0303") {
    set(driver, "error", "E0303", failed.detail,
        text("install NVIDIA's driver again; ldconfig -p | grep libnvidia-ml shows which library "
             "is found"));
  } else if (failed.id == "E0304") {
    set(driver, "error", "E0304", text("the NVIDIA driver is not loaded into the kernel"),
        "sudo modprobe nvidia");
  } else if (failed.id == "E0305") {
    set(driver, "error", "E0305",
        text("the NVIDIA driver's kernel module and library have different versions"),
        text("sudo reboot    (the driver was updated while it was loaded)"));
  } else if (failed.id == "E0308") {
    set(driver, "error", "E0308", text("this user has no permission to use the NVIDIA driver"),
        text("ls -l /dev/nvidia*; then ask the administrator for the group that owns them: sudo "
             "usermod -aG GROUP $USER\nin a container: start it with --gpus all "
             "(nvidia-container-toolkit)"));
  } else {
    set(driver, "error", "E0309",
        text("the NVIDIA driver cannot be initialised (NVML error {})", failed.code),
        look_yourself());
  }
}

void describe_death(int signal, model::Driver& driver) {
  if (signal > 0) {
    set(driver, "error", "E0306", text("the NVIDIA driver's library crashed (signal {})", signal),
        kernel_log());
  } else {
    set(driver, "error", "E0310",
        text("the NVIDIA driver's library ended the process that called it"), look_yourself());
  }
}

void describe_silence(bool loaded, std::chrono::milliseconds waited, model::Driver& driver) {
  if (loaded) {
    set(driver, "no answer", "E0307",
        text("the NVIDIA driver did not finish its initialisation within {}",
             show_duration(waited)),
        kernel_log());
  } else {
    set(driver, "no answer", "E0311",
        text("the NVIDIA driver's library did not finish loading within {}", show_duration(waited)),
        look_yourself());
  }
}

void describe_silent_devices(std::chrono::milliseconds waited, model::Driver& driver) {
  set(driver, "no answer", "E0313", text("no NVIDIA GPU answered within {}", show_duration(waited)),
      kernel_log());
}

void describe_no_child(model::Driver& driver) {
  set(driver, "error", "E0312", text("cannot start the process that calls the NVIDIA driver"),
      "ulimit -u; ulimit -n");
}

}  // namespace berth::inventory
