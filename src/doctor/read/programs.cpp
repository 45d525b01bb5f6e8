// Finds programs that are not in Python and have their compute backends in separate files.
#include <algorithm>
#include <array>

#include "base/text_parts.hpp"
#include "doctor/facts/platform.hpp"
#include "doctor/read/collectors.hpp"
#include "doctor/read/place.hpp"

namespace berth::doctor {
namespace {

constexpr std::size_t kMostNames = 2000;

/// Programs of llama.cpp, whisper.cpp and stable-diffusion.cpp.
constexpr auto kPrograms =
    std::to_array<const char*>({"llama-server", "llama-cli", "llama-bench", "whisper-server",
                                "whisper-cli", "sd-server", "sd-cli"});

void add_ggml(const Tree& tree, const std::string& folder, GgmlProgram& found) {
  for (const std::string& name : tree.list(folder, kMostNames).value_or({})) {
    if (!name.starts_with("libggml") || name.find(".so") == std::string::npos) continue;
    if (found.folder.empty()) found.folder = folder;
    found.libraries.push_back(name);
  }
}

/// Searches for backends next to the program, in lib folders next to its folder, and in the folders
/// of Homebrew's and Debian's separate ggml packages.
GgmlProgram look_around(const Tree& tree, const std::string& program) {
  GgmlProgram found;
  found.program = program;
  const std::string real = tree.resolve(program).value_or(program);
  for (const std::string& prefix : {parent(parent(real)), parent(parent(program))})
    for (const char* part : {"/lib", "/libexec", "/lib/llama.cpp", "/lib64", "/opt/ggml/libexec",
                             "/opt/ggml/lib", "/lib/x86_64-linux-gnu/ggml/backends0",
                             "/lib/x86_64-linux-gnu/ggml/backends", "/lib/x86_64-linux-gnu"})
      if (prefix != "/usr" || std::string_view(part) != "/libexec")
        add_ggml(tree, prefix + part, found);
  add_ggml(tree, parent(real), found);
  const std::string cellar = parent(parent(program)) + "/Cellar/ggml";
  for (const std::string& version : tree.list(cellar, 20).value_or({}))
    for (const char* part : {"/libexec", "/lib"})
      add_ggml(tree, cellar + "/" + version + part, found);
  return found;
}

/// The folder of Ollama's libraries below `prefix`, where its installer or a distribution puts
/// them; Fedora uses /usr/lib64, Debian the architecture's folder. Absent: not found.
Fact<std::string> ollama_folder(const Tree& tree, const std::string& prefix) {
  for (const char* part :
       {"/lib/ollama", "/lib64/ollama", "/libexec/ollama", "/lib/x86_64-linux-gnu/ollama",
        "/lib/aarch64-linux-gnu/ollama", "/share/ollama/lib"}) {
    const auto node = tree.node(prefix + part);
    if (node.is_unreadable()) return node.why();
    if (node) return prefix + part;
  }
  return {};
}

}  // namespace

/// Finds Ollama where its installer and distributions install it.
Fact<OllamaFiles> collect_ollama(const Tree& tree) {
  for (const char* program : {"/usr/local/bin/ollama", "/usr/bin/ollama"}) {
    const auto node = tree.node(program);
    if (node.is_unreadable()) return node.why();
    if (!node) continue;
    OllamaFiles files;
    files.program = program;
    const std::string real = tree.resolve(program).value_or(program);
    if (const auto file = tree.node(real)) files.size = file->size;
    const auto folder = ollama_folder(tree, parent(parent(real)));
    if (folder.is_unreadable()) return folder.why();
    files.folder = folder.value_or(parent(parent(real)) + "/lib/ollama");
    const auto names = tree.list(files.folder, 500);
    if (names.is_unreadable()) return names.why();
    files.libraries = names.value_or({});
    // In Ollama 0.4 to 0.5.7, each backend was a program in its own folder.
    const auto runners = tree.list(files.folder + "/runners", 100);
    if (runners.is_unreadable()) return runners.why();
    for (const std::string& name : runners.value_or({}))
      files.libraries.push_back("runners/" + name);
    return files;
  }
  return {};
}

Fact<GgmlProgram> collect_ggml(const Tree& tree, const ProcessFacts& process) {
  const auto path = process.variable("PATH");
  if (path.is_unreadable()) return path.why();
  const std::string folders = path.value_or("");
  for (const std::string_view folder : split(folders, ':'))
    for (const char* name : kPrograms) {
      const std::string program = std::string(folder) + "/" + name;
      if (!folder.starts_with('/') || !tree.exists(program)) continue;
      GgmlProgram found = look_around(tree, program);
      if (!found.libraries.empty()) return found;
    }
  return {};
}

}  // namespace berth::doctor
