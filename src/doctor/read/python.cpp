// Determines the prefix, version and sys.path of a Python from files, as its site.py would.
#include <algorithm>
#include <cerrno>

#include "base/text_parts.hpp"
#include "doctor/knowledge/python_text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/read/collectors.hpp"
#include "doctor/read/place.hpp"
#include "doctor/read/pyenv.hpp"
#include "doctor/read/python_packages.hpp"

namespace berth::doctor {
namespace {

/// The newest version, such as "3.11", for which PREFIX/lib has a folder; "2.7" if there is only
/// Python 2.
std::string library_version(const Tree& tree, const std::string& prefix) {
  std::string best;
  for (const std::string& name : tree.list(prefix + "/lib").value_or({})) {
    if (!name.starts_with("python3.") && name != "python2.7") continue;
    const std::string version = beginning(std::string_view(name).substr(6));
    if (best.empty() || is_older(best, version)) best = version;
  }
  return best;
}

std::string user_base(const Fact<Environment>& environment) {
  const std::string user = variable(environment, "PYTHONUSERBASE");
  const std::string home = variable(environment, "HOME");
  return user.empty() && !home.empty() ? home + "/.local" : user;
}

struct Place {
  std::string prefix, base_prefix, version;
  std::string release;  // "3.11.2"; "" if no file of the environment has the patch number
  bool own_packages_only = false;
};

std::string version_in(const std::string& path) {
  const std::size_t at = std::max(path.rfind("/python3.") + 1, path.rfind("/python2.7") + 1);
  return at == 0 ? "" : beginning(std::string_view(path).substr(at + 6));
}

Place place_of(const Tree& tree, const std::string& interpreter, PythonFacts& facts) {
  Place place;
  place.prefix = place.base_prefix = parent(parent(interpreter));
  const std::string real = tree.resolve(interpreter).value_or(interpreter);
  place.version = version_in(real);
  if (const auto text = tree.read(place.prefix + "/pyvenv.cfg")) {
    const VenvConfig config = parse_venv_config(*text);
    facts.is_venv = true;
    facts.has_uv = config.by_uv;
    place.own_packages_only = !config.system_packages;
    if (!config.home.empty()) place.base_prefix = parent(config.home);
    if (!config.version.empty()) place.version = beginning(config.version);
    place.release = config.version;
  } else if ((library_version(tree, place.prefix).empty() &&
              !tree.list(place.prefix + "/lib").is_unreadable()) ||
             place.prefix == "/") {
    place.prefix = place.base_prefix = parent(parent(real));
  }
  if (place.version.empty()) place.version = library_version(tree, place.prefix);
  if (place.version.empty() && place.prefix == "/usr")
    place.version = library_version(tree, "/usr/local");
  return place;
}

class PathBuilder {
 public:
  PathBuilder(const Tree& tree, std::vector<PathEntry>& path) : tree_(tree), path_(path) {}

  void add(const std::string& folder, PathOrigin origin) {
    if (folder.empty() || path_.size() >= 200) return;
    const Fact<Node> node = tree_.node(folder);
    // Python skips unreadable folders. Python's own folders stay in the list, so that a later read
    // reports the error.
    if (node.is_absent() || (!node && origin != PathOrigin::kOwn)) return;
    // Add each folder once, by its real path: in a venv, lib64 is a link to lib.
    const std::string real = tree_.resolve(folder).value_or(folder);
    if (std::find(seen_.begin(), seen_.end(), real) != seen_.end()) return;
    seen_.push_back(real);
    path_.push_back({folder, origin});
  }

  /// Adds a site-packages folder, and the folders in its .pth files.
  void add_site(const std::string& folder, PathOrigin origin) {
    add(folder, origin);
    std::size_t files = 0;
    for (const std::string& name : tree_.list(folder).value_or({})) {
      if (!name.ends_with(".pth") || ++files > 200) continue;
      for (const std::string& more : parse_pth(tree_.read(folder + "/" + name).value_or("")))
        add(more.front() == '/' ? more : folder + "/" + more, PathOrigin::kPth);
    }
  }

  void add_prefix(const std::string& prefix, const std::string& version) {
    const std::string python = "/lib/python" + version;
    if (prefix == "/usr") {  // Debian uses dist-packages
      add_site("/usr/local" + python + "/dist-packages", PathOrigin::kOwn);
      add_site("/usr/lib/python3/dist-packages", PathOrigin::kOwn);
      add_site("/usr" + python + "/dist-packages", PathOrigin::kOwn);
    }
    add_site(prefix + python + "/site-packages", PathOrigin::kOwn);
    add_site(prefix + "/lib64/python" + version + "/site-packages", PathOrigin::kOwn);
    if (prefix == "/usr")
      add_site("/usr/local/lib64/python" + version + "/site-packages", PathOrigin::kOwn);
    if (prefix == "/usr/local") add_site(prefix + python + "/dist-packages", PathOrigin::kOwn);
  }

 private:
  const Tree& tree_;
  std::vector<PathEntry>& path_;
  std::vector<std::string> seen_;
};

std::vector<PathEntry> search_path(const Tree& tree, const Fact<Environment>& environment,
                                   const Place& place, bool is_venv) {
  std::vector<PathEntry> path;
  PathBuilder builder(tree, path);
  const std::string first = variable(environment, "PYTHONPATH");
  for (const std::string_view folder : split(first, ':'))
    builder.add(std::string(folder), PathOrigin::kPythonPath);
  if (is_venv) builder.add_prefix(place.prefix, place.version);
  if (is_venv && place.own_packages_only) return path;
  const std::string user = user_base(environment);
  if (variable(environment, "PYTHONNOUSERSITE").empty() && !user.empty())
    builder.add_site(user + "/lib/python" + place.version + "/site-packages", PathOrigin::kUser);
  builder.add_prefix(place.base_prefix, place.version);
  return path;
}

/// The interpreter in a script's first line: "#!/home/ada/venv/bin/python3". If the path is too
/// long for the kernel, the first line names sh, and the second line has the path in quotes. "" if
/// there is none.
std::string interpreter_of(std::string_view script) {
  for (const std::string_view line : split(script.substr(0, script.find("import")), '\n')) {
    const std::size_t at = line.find('/');
    if (at == std::string_view::npos || line.find("python") == std::string_view::npos) continue;
    const std::string_view path = line.substr(at);
    return std::string(path.substr(0, path.find_first_of(" \t\"'\r")));
  }
  return "";
}

/// The folders of PATH, or a shell's default folders.
std::string search_folders(const Fact<Environment>& environment) {
  const std::string path = variable(environment, "PATH");
  return path.empty() ? kUsualPath : path;
}

/// The interpreter of the pip that is first in PATH.
std::string pip_in_path(const Tree& tree, const Fact<Environment>& environment) {
  const std::string path = search_folders(environment);
  for (const std::string_view folder : split(path, ':'))
    for (const char* name : {"/pip", "/pip3"})
      if (folder.starts_with('/') && tree.exists(std::string(folder) + name))
        return std::string(folder) + name;
  return "";
}

bool is_framework(std::string_view name) {
  return name == "torch" || name == "tensorflow" || name == "jaxlib" || name == "cupy" ||
         name.starts_with("cupy-cuda") || name == "onnxruntime-gpu";
}

Fact<OtherPip> find_other_pip(const Tree& tree, const Fact<Environment>& environment,
                              const PythonFacts& facts, const Place& own) {
  // If the user named another Python than the default one, the pip in PATH does not matter.
  PythonFacts scratch;
  const std::string usual = default_python(tree, environment);
  if (usual.empty() || place_of(tree, usual, scratch).prefix != own.prefix) return {};
  OtherPip pip;
  pip.path = pip_in_path(tree, environment);
  if (pip.path.empty() || parent(pip.path).ends_with("/shims")) return {};
  pip.interpreter = interpreter_of(tree.read(pip.path, 4096).value_or("").substr(0, 4096));
  if (pip.interpreter.empty() || pip.interpreter == "/usr/bin/env" || !tree.exists(pip.interpreter))
    return {};
  PythonFacts other;
  const Place place = place_of(tree, pip.interpreter, other);
  const auto real = [&](const std::string& folder) {
    return tree.resolve(folder).value_or(folder);
  };
  if (place.version.empty() ||
      (real(place.prefix) == real(own.prefix) && place.version == own.version))
    return {};
  pip.version = place.version;
  for (const PathEntry& entry : search_path(tree, environment, place, other.is_venv))
    for (const std::string& name : tree.list(entry.folder).value_or({}))
      if (const std::string package = parse_info_name(name).first;
          is_framework(package) && facts.distribution(package).is_absent())
        pip.frameworks.push_back(entry.folder + "/" + name);
  return pip;
}

/// The CPU architecture of programs in this tree, judged by its loader.
Fact<std::string> machine_of(const Tree& tree) {
  for (const char* path : {"/lib64/ld-linux-x86-64.so.2", "/usr/lib/x86_64-linux-gnu"})
    if (tree.exists(path)) return std::string("x86_64");
  for (const char* path : {"/lib/ld-linux-aarch64.so.1", "/usr/lib/aarch64-linux-gnu"})
    if (tree.exists(path)) return std::string("aarch64");
  const std::string cpu = tree.read("/proc/cpuinfo").value_or("");
  if (cpu.find("vendor_id") != std::string::npos) return std::string("x86_64");
  if (cpu.find("CPU implementer") != std::string::npos) return std::string("aarch64");
  return Unreadable{"/proc/cpuinfo", ENOENT};
}

/// "3.11.2" if files next to the interpreter contain the full version, otherwise "3.11".
std::string release_of(const Tree& tree, const Place& place, const PythonFacts& facts) {
  if (!place.release.empty()) return place.release;
  for (const CondaPackage& package : facts.conda.value_or({}))
    if (package.name == "python") return package.version;
  const std::string header =
      place.base_prefix + "/include/python" + place.version + "/patchlevel.h";
  const std::string text = tree.read(header).value_or("");
  for (std::string_view line : split(text, '\n')) {
    constexpr std::string_view kName = "#define PY_VERSION ";
    if (!line.starts_with(kName)) continue;
    line = trim(line.substr(kName.size()));
    if (line.size() > 2) return std::string(line.substr(1, line.size() - 2));
  }
  return place.version;
}

void cannot_be_read(PythonFacts& facts, const Unreadable& why) {
  facts.version = why;
  facts.path = why;
  facts.distributions = why;
  facts.torch = why;
  facts.conda = why;
  facts.libraries = why;
  facts.torch_libraries = why;
  facts.libdevice = why;
  facts.cudnn_listed = why;
  facts.bitsandbytes = why;
  facts.bitsandbytes_runtime = why;
  facts.llama_cpp = why;
  facts.llama_cpp_links = why;
  facts.openmp = why;
}

}  // namespace

std::string default_python(const Tree& tree, const Fact<Environment>& environment) {
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string prefix = variable(environment, name); !prefix.empty()) {
      // The environment is active but unreadable. Do not fall back to another Python.
      if (tree.node(prefix).is_unreadable()) return prefix + "/bin/python";
      for (const char* program : {"/bin/python", "/bin/python3", "/lib"})
        if (tree.exists(prefix + program)) return prefix + "/bin/python";
    }
  const std::string path = search_folders(environment);
  for (const std::string_view folder : split(path, ':'))
    if (const std::string python = std::string(folder) + "/python3";
        folder.starts_with('/') && tree.exists(python))
      return behind_shim(tree, environment, python);
  // If there is no python3, use a Python 2, which older systems call `python`.
  for (const std::string_view folder : split(path, ':'))
    if (std::string python = std::string(folder) + "/python";
        folder.starts_with('/') && tree.exists(python) &&
        library_version(tree, parent(std::string(folder))) == "2.7")
      return python;
  // A recorded machine may have packages but no interpreter. The folders of the packages are
  // enough.
  for (const char* prefix : {"/opt/venv", "/opt/conda", "/usr/local", "/usr"})
    if (!library_version(tree, prefix).empty()) return std::string(prefix) + "/bin/python3";
  return "";
}

std::optional<Unreadable> why_not_searched(const Tree& tree, const Fact<Environment>& environment) {
  if (environment.is_unreadable()) return environment.why();
  const std::string path = search_folders(environment);
  bool any = false;
  for (const std::string_view folder : split(path, ':')) {
    if (!folder.starts_with('/')) continue;
    const auto there = tree.node(std::string(folder));
    const auto python = tree.node(std::string(folder) + "/python3");
    if (python.is_unreadable()) return python.why();
    any = any || there.has_value();
  }
  // If no folder of PATH exists, only a part of the file system is visible, and programs may be
  // elsewhere.
  if (!any) return Unreadable{path, ENOENT};
  return std::nullopt;
}

PythonFacts unreadable_python(const Unreadable& why) {
  PythonFacts facts;
  facts.interpreter = why;
  cannot_be_read(facts, why);
  return facts;
}

std::string python_of_program(const Tree& tree, const Fact<Environment>& environment,
                              const std::string& program) {
  if (program.find("python", program.rfind('/') + 1) == std::string::npos) return "";
  // /proc/PID/exe leads to the interpreter to which the virtual environment's python links.
  const std::string venv = variable(environment, "VIRTUAL_ENV") + "/bin/python";
  const auto real = tree.resolve(venv);
  return real && *real == tree.resolve(program).value_or(program) ? venv : program;
}

PythonFacts collect_python(const Tree& tree, const Fact<Environment>& environment,
                           const std::string& interpreter) {
  PythonFacts facts;
  if (interpreter.empty()) return facts;
  const std::string real = behind_shim(tree, environment, interpreter);
  facts.interpreter = real.empty() ? interpreter : real;
  Place place = place_of(tree, *facts.interpreter, facts);
  // If the standard library was not recorded, the packages in the user's folder show the version.
  if (place.version.empty() && !facts.is_venv)
    place.version = library_version(tree, user_base(environment));
  facts.prefix = place.prefix;
  facts.base = place.base_prefix;
  facts.machine = machine_of(tree);
  facts.is_conda = tree.exists(place.prefix + "/conda-meta");
  if (place.version.empty()) {
    Unreadable why{place.prefix + "/lib/python3.*", ENOENT};
    // Denied access must not look like an absent file, which rules may ignore.
    if (const auto library = tree.list(parent(parent(interpreter)) + "/lib");
        library.is_unreadable())
      why = library.why();
    cannot_be_read(facts, why);
    return facts;
  }
  facts.version = place.version;
  facts.is_externally_managed =
      !facts.is_venv &&
      (tree.exists(place.base_prefix + "/lib/python" + place.version + "/EXTERNALLY-MANAGED"));
  facts.path =
      tree.watched([&] { return Fact(search_path(tree, environment, place, facts.is_venv)); });
  // If the variables are unknown, sys.path and the library search may lack folders that variables
  // name.
  if (environment.is_unreadable() && environment.why().error_number != 0)
    facts.path.doubt(environment.why());
  read_packages(tree, environment, facts);
  facts.release = release_of(tree, place, facts);
  facts.other_pip = tree.watched([&] { return find_other_pip(tree, environment, facts, place); });
  if (!facts.distributions.is_whole()) facts.other_pip.doubt(facts.distributions.why());
  return facts;
}

Fact<std::vector<std::string>> collect_gpu_models(const Tree& tree) {
  const std::string folder = "/proc/driver/nvidia/gpus";
  return tree.list(folder).map([&](const std::vector<std::string>& gpus) {
    std::vector<std::string> models;
    for (const std::string& gpu : gpus) {
      const std::string text = tree.read(folder + "/" + gpu + "/information").value_or("");
      for (const std::string_view line : split(text, '\n'))
        if (line.starts_with("Model:")) models.push_back(printable(trim(line.substr(6))));
    }
    return models;
  });
}

}  // namespace berth::doctor
