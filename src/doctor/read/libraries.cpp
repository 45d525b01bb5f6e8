#include "doctor/facts/libraries.hpp"
#include "doctor/read/collectors.hpp"

#include <array>
#include <cerrno>
#include <string_view>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "doctor/read/loader.hpp"

namespace berth::doctor {
namespace {

Fact<FoundLibrary> find(const Tree& tree, Loader& loader, const char* name) {
  const LoadedObject object = loader.look_up(name, loader.objects().empty() ? -1 : 0);
  if (object.path.empty() && !loader.has_folders()) return Unreadable{"/etc/ld.so.cache", ENOENT};
  if (object.path.empty()) return {};
  FoundLibrary found;
  found.name = name;
  found.path = object.path;
  found.resolved = tree.resolve(object.path).value_or(object.path);
  found.by = words_for(object.by);
  found.is_empty = object.is_empty;
  if (const auto at = found.resolved.rfind(".so."); at != std::string::npos)
    found.version = found.resolved.substr(at + 4);
  return found;
}

/// The library that the loader chooses for a program from Nix. The loader of Nix's glibc uses
/// neither the cache nor the system's folders.
Fact<FoundLibrary> of_nix(const Tree& tree, const Fact<Environment>& environment, bool own,
                          const char* name) {
  std::vector<std::pair<std::string, FoundBy>> folders;
  if (environment)
    if (const auto list = environment->find("LD_LIBRARY_PATH"); list != environment->end())
      for (const std::string_view folder : split(list->second, ':'))
        if (folder.starts_with('/')) folders.emplace_back(folder, FoundBy::kLibraryPath);
  if (own) folders.emplace_back("/run/opengl-driver/lib", FoundBy::kRunpath);
  for (const auto& [folder, by] : folders) {
    FoundLibrary found;
    found.name = name;
    found.path = folder + "/" + name;
    const auto target = tree.resolve(found.path);
    if (target.is_unreadable()) return target.why();
    if (!target) continue;
    found.resolved = *target;
    found.by = words_for(by);
    if (const auto at = found.resolved.rfind(".so."); at != std::string::npos)
      found.version = found.resolved.substr(at + 4);
    return found;
  }
  return {};
}

/// Path of a dynamically linked program that nearly every system has; empty if there is none.
std::string any_program(const Tree& tree) {
  for (const char* path : {"/bin/sh", "/usr/bin/env", "/bin/ls", "/bin/bash"})
    if (tree.exists(path)) return path;
  return "";
}

LibraryFacts look_up_drivers(const Tree& tree, const Fact<Environment>& environment,
                             const std::string& program) {
  LibraryFacts facts;
  if (tree.resolve(program).value_or(program).starts_with("/nix/store/")) {
    // Only Nix's own packages search NixOS's library folder. A program in a virtual environment
    // does not.
    const bool own = program.starts_with("/nix/store/");
    facts.by_nix = true;
    facts.cuda = of_nix(tree, environment, own, "libcuda.so.1");
    facts.nvml = of_nix(tree, environment, own, "libnvidia-ml.so.1");
    return facts;
  }
  Loader loader(tree, environment.value_or({}));
  std::string start = program;
  if (!start.empty()) loader.start(start);
  if (loader.objects().empty() && !(start = any_program(tree)).empty()) loader.start(start);
  // If a bundle contains no program, assume one without its own search folders. A real machine
  // always has a program; if it cannot be read, all facts are unreadable.
  if (loader.objects().empty() && tree.is_this_machine()) {
    facts.cuda = facts.nvml = Unreadable{start.empty() ? "/bin/sh" : start, ENOENT};
    return facts;
  }
  facts.cuda = find(tree, loader, "libcuda.so.1");
  facts.nvml = find(tree, loader, "libnvidia-ml.so.1");
  return facts;
}

}  // namespace

LibraryFacts collect_libraries(const Tree& tree, const Fact<Environment>& environment,
                               const std::string& program) {
  LibraryFacts facts;
  const auto seen = tree.watched([&] {
    facts = look_up_drivers(tree, environment, program);
    return Fact(true);
  });
  // A folder that could not be read may contain another file, which the loader would find first.
  facts.cuda.doubt(seen);
  facts.nvml.doubt(seen);
  facts.cuda.doubt(environment);
  facts.nvml.doubt(environment);
  return facts;
}

}  // namespace berth::doctor
