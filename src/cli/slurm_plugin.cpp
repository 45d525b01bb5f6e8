// `berth slurm plugin`: compiles the SPANK plugin for this machine's Slurm and adds a line to
// plugstack.conf. A plugin works with only one Slurm release, so it cannot be shipped as a binary.
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/write_file.hpp"
#include "cli/setup_environment.hpp"
#include "cli/slurm_task.hpp"
#include "doctor/knowledge/config_lines.hpp"
#include "engines/slurm_config.hpp"
#include "output/json_writer.hpp"

extern "C" const char berth_spank_source[], berth_spank_source_end[];

namespace berth::cli {
namespace {

constexpr const char* kPrefix = "/usr/local/lib/berth";
constexpr const char* kName = "spank_berth.so";

struct Place {
  std::string plugin, plugstack, line;
};

std::string_view source() {
  return {berth_spank_source,
          static_cast<std::size_t>(berth_spank_source_end - berth_spank_source)};
}

std::string own_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).string();
}

Error not_written(const std::string& path, int problem) {
  return {problem == EACCES || problem == EPERM || problem == EROFS ? ErrorCode::kPermissionDenied
                                                                    : ErrorCode::kUnavailable,
          "E1021", text("{} cannot be written: {}", printable(path), error_words(problem)),
          "sudo berth slurm plugin --install"};
}

Result<Place> place_of(const Arguments& given) {
  const auto config =
      engines::read_slurm_config(given.value("--conf").value_or(engines::slurm_folder()));
  if (!config) return config.error();
  Place place;
  std::error_code ignored;
  const std::string folder =
      std::filesystem::absolute(given.value("--prefix").value_or(kPrefix), ignored)
          .lexically_normal()
          .string();
  if (folder.find_first_of(" \t\n#") != std::string::npos)
    return Error{ErrorCode::kInvalidArgument, "E1002",
                 text("plugstack.conf does not support a path with a space: {}", printable(folder)),
                 std::string("--prefix ") + kPrefix};
  place.plugin = folder + "/" + kName;
  place.plugstack = config->setting("plugstackconfig");
  if (place.plugstack.empty()) place.plugstack = config->folder + "/plugstack.conf";
  place.line = fmt::format("optional {} berth={}", place.plugin, own_program());
  return place;
}

/// The text of plugstack.conf after Berth's line was replaced by `line`, or removed if `line` is
/// "".
std::string with_line(const std::string& before, const std::string& line) {
  std::string out;
  for (const std::string_view one : split(std::string_view(before), '\n')) {
    const auto words = doctor::words_between_blanks(one);
    const bool ours = words.size() >= 2 && words[0] != "#" && words[1].ends_with(kName);
    if (!ours && !(one.empty() && (out.empty() || out.ends_with("\n\n"))))
      out += std::string(one) + "\n";
  }
  while (out.ends_with("\n\n")) out.pop_back();
  if (out == "\n") out.clear();
  return line.empty() ? out : out + line + "\n";
}

/// Replaces the file in one step, because slurmstepd may read it at any time.
Status write_file(const std::string& path, std::string_view bytes) {
  if (!replace_file(path, bytes, 0644)) return not_written(path, errno);
  return Done{};
}

Status build(const std::string& plugin) {
  const std::string folder = std::filesystem::path(plugin).parent_path().string();
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) return not_written(folder, problem.value());
  const std::string code = folder + "/spank_berth.c", draft = plugin + ".new";
  if (auto written = write_file(code, source()); !written) return written;
  const int status =
      run_program({"/usr/bin/env", "cc", "-shared", "-fPIC", "-O2", "-o", draft, code});
  if (status != 0) {
    ::unlink(draft.c_str());
    return Error{ErrorCode::kUnavailable, "E1020",
                 status == 127 ? text("there is no C compiler here")
                               : text("the plugin cannot be built: see the output of the compiler"),
                 "sudo apt-get install gcc libslurm-dev\nsudo dnf install gcc slurm-devel"};
  }
  if (::rename(draft.c_str(), plugin.c_str()) != 0) return not_written(plugin, errno);
  return Done{};
}

Result<int> change(const Context& context, bool install) {
  const auto place = place_of(context.arguments);
  if (!place) return place.error();
  if (install)
    if (auto built = build(place->plugin); !built) return std::move(built).error();
  const std::string before = slurp(place->plugstack, 1 << 20).value_or("");
  const std::string after = with_line(before, install ? place->line : "");
  if (after != before)
    if (auto written = write_file(place->plugstack, after); !written)
      return std::move(written).error();
  if (!install) {
    const std::string folder = std::filesystem::path(place->plugin).parent_path().string();
    ::unlink(place->plugin.c_str());
    ::unlink((folder + "/spank_berth.c").c_str());
    ::rmdir(folder.c_str());
  }
  if (context.json) {
    output::JsonWriter json;
    json.open('{');
    json.field("schema", 1);
    json.field("installed", install);
    json.field("plugin", place->plugin);
    json.field("plugstack", place->plugstack);
    json.field("line", place->line);
    json.close('}');
    context.out(json.finish());
    return 0;
  }
  if (!install) {
    context.out(text("the plugin and its line in {} were removed", place->plugstack) + "\n");
    return 0;
  }
  context.out(fmt::format("{}\n{}\n  {}\n", place->plugin, place->plugstack, place->line));
  context.err(text("hint: {}", "srun --berth-memory=8G --berth-report=report.json …") + "\n");
  return 0;
}

}  // namespace

Result<int> slurm_plugin(const Context& context) {
  const bool install = context.arguments.has("--install"),
             remove = context.arguments.has("--remove");
  if (install && remove) return contradiction("--install", "--remove");
  if (install || remove) return change(context, install);
  context.out(source());
  return 0;
}

}  // namespace berth::cli
