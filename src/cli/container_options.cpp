#include "cli/container_options.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/descriptor.hpp"
#include "base/environment_variables.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "system/spawn.hpp"

namespace berth::cli {
namespace {

std::string in_path(const std::string& program) {
  const std::string path = env_nonempty("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  for (const std::string_view folder : split(path, ':')) {
    const std::string whole = std::string(folder.empty() ? "." : folder) + "/" + program;
    if (std::error_code problem;
        ::access(whole.c_str(), X_OK) == 0 && !std::filesystem::is_directory(whole, problem))
      return whole;
  }
  return "";
}

/// Runs a command of the container engine and waits for its end. Its output goes to stderr if
/// `shown`, or is discarded. Returns its exit code, or 128 plus the number of the signal that ended
/// it.
int run_to_end(const std::vector<std::string>& words, bool shown) {
  const Descriptor nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const int out = shown || !nowhere ? 2 : nowhere.get();
  const auto child =
      system::spawn({.program = words.front(), .words = words, .out = out, .err = out});
  if (child.problem != 0) return 127;
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Result<std::optional<engines::ContainerWish>> parse_container(const Arguments& arguments) {
  const auto image = arguments.value("--container");
  if (!image) {
    for (const char* option : {"--engine", "--mount", "--engine-option"})
      if (arguments.has(option))
        return Error{ErrorCode::kInvalidArgument, "E0013",
                     text("{} needs {}", option, "--container IMAGE"),
                     "berth run --container IMAGE -- COMMAND"};
    return std::optional<engines::ContainerWish>();
  }
  // Reject an image name that begins with "-", because the engine would take it for an option.
  if (image->empty() || image->front() == '-')
    return Error{ErrorCode::kInvalidArgument, "E1103",
                 text("--container: '{}' is not the name of an image", printable(*image)),
                 "berth run --container IMAGE -- COMMAND"};
  auto wish = engines::find_engine(arguments.value("--engine"), in_path);
  if (!wish) return std::move(wish).error();
  wish->image = *image;
  wish->mounts = arguments.values("--mount");
  wish->options = arguments.values("--engine-option");
  std::error_code problem;
  const std::string folder = std::filesystem::current_path(problem).string();
  for (const std::string& mount : wish->mounts)
    if (auto parsed = engines::parse_mount(mount, folder); !parsed)
      return std::move(parsed).error();
  return std::optional(*std::move(wish));
}

Status prepare_container(const Context& context, const engines::ContainerWish& wish, bool nvidia) {
  using engines::ContainerEngine;
  if (nvidia && wish.engine == ContainerEngine::kPodman && !engines::has_cdi_devices(""))
    return Error{ErrorCode::kUnavailable, "E1102",
                 text("podman does not know the GPUs: no file in /etc/cdi or /var/run/cdi names "
                      "nvidia.com/gpu"),
                 "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"};
  if (wish.engine == ContainerEngine::kApptainer) return Done{};
  const std::string& program = wish.program;
  const auto look = wish.engine == ContainerEngine::kPodman
                        ? std::vector<std::string>{program, "image", "exists", wish.image}
                        : std::vector<std::string>{program, "image", "inspect", wish.image};
  if (run_to_end(look, false) == 0) return Done{};
  const std::string engine = engines::name(wish.engine);
  if (!context.json)
    context.err(text("note: {}", text("{} fetches the image {}; no GPU is leased yet", engine,
                                      printable(wish.image))) +
                "\n");
  if (run_to_end({program, "pull", wish.image}, !context.json) == 0) return Done{};
  return Error{ErrorCode::kUnavailable, "E1101",
               text("the image {} is not on this machine, and {} could not fetch it",
                    printable(wish.image), engine),
               fmt::format("{} pull {}", engine, printable(wish.image))};
}

}  // namespace berth::cli
