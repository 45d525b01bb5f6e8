#include "doctor/read/loader.hpp"

#include <elf.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "doctor/read/place.hpp"

namespace berth::doctor {
namespace {

/// Replaces $WORD or ${WORD} (WORD is ORIGIN or LIB) by `by`. A longer name that starts with WORD
/// is left alone.
std::string expanded(std::string text, std::string_view word, const std::string& by) {
  for (const std::string& token : {"${" + std::string(word) + "}", "$" + std::string(word)}) {
    for (auto at = text.find(token); at != std::string::npos; at = text.find(token, at)) {
      const char next = at + token.size() < text.size() ? text[at + token.size()] : '/';
      const bool whole =
          token.back() == '}' || !(next == '_' || std::isalnum(static_cast<unsigned char>(next)));
      if (!whole) {
        at += token.size();
        continue;
      }
      text.replace(at, token.size(), by);
      at += by.size();
    }
  }
  return text;
}

}  // namespace

std::vector<std::string> configured_folders(const Tree& tree) {
  std::vector<std::string> files{"/etc/ld.so.conf"};
  for (const std::string& name : tree.list("/etc/ld.so.conf.d").value_or({}))
    if (name.ends_with(".conf")) files.push_back("/etc/ld.so.conf.d/" + name);
  std::vector<std::string> found;
  for (const std::string& file : files) {
    const std::string text = tree.read(file).value_or("");
    for (const std::string_view line : split(text, '\n'))
      if (const auto folder = trim(line.substr(0, line.find('#'))); folder.starts_with('/'))
        found.emplace_back(folder);
  }
  return found;
}

std::string words_for(FoundBy by) {
  switch (by) {
    case FoundBy::kRpath:
      return "DT_RPATH";
    case FoundBy::kLibraryPath:
      return "LD_LIBRARY_PATH";
    case FoundBy::kRunpath:
      return "DT_RUNPATH";
    case FoundBy::kCache:
      return "/etc/ld.so.cache";
    case FoundBy::kDefault:
      return std::string(tr("the loader's default folders"));
    case FoundBy::kPreload:
      return "LD_PRELOAD";
    case FoundBy::kPath:
      break;
  }
  return "";
}

Loader::Loader(const Tree& tree, const Environment& environment) : tree_(tree) {
  const auto variable = [&](const char* name) -> std::string {
    const auto found = environment.find(name);
    return found == environment.end() ? "" : found->second;
  };
  library_path_ = variable("LD_LIBRARY_PATH");
  preload_ = variable("LD_PRELOAD");
  if (const auto cache = tree.read("/etc/ld.so.cache", 16 << 20))
    cache_ = parse_loader_cache(*cache);
  else if (!tree.is_this_machine())
    configured_ = configured_folders(tree);
  // Folders of all architectures. Once a program has been read, only those of its CPU architecture
  // remain.
  for (const char* folder :
       {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"})
    if (tree.exists(folder)) defaults_.emplace_back(folder);
}

Fact<Elf> Loader::read(const std::string& path) const {
  const auto file = tree_.open_file(path);
  if (!file) return file.is_unreadable() ? Fact<Elf>(file.why()) : Fact<Elf>();
  return parse_elf([&](std::uint64_t offset, void* into, std::size_t size) {
    return file->read_at(offset, into, size);
  });
}

bool Loader::try_file(const std::string& path, FoundBy by, LoadedObject& into) const {
  auto elf = read(path);
  // If a file is empty, the loader reports "file too short" and stops. In a bundle, an empty file
  // may only mean that its content was not recorded; `is_empty` is then false.
  if (!elf && !elf.is_unreadable()) {
    const auto node = tree_.node(tree_.resolve(path).value_or(path));
    Elf unknown;
    unknown.machine = machine_;
    unknown.is_64 = true;
    if (node && node->type == NodeType::kFile && node->size == 0) {
      into.is_empty = node->is_empty;
      elf = std::move(unknown);
    }
  }
  // The loader skips a file for another architecture as if it did not exist.
  if (!elf || (machine_ != 0 && (elf->machine != machine_ || !elf->is_64))) return false;
  into.path = path;
  into.by = by;
  into.elf = *elf;
  return true;
}

bool Loader::try_folders(const std::vector<std::string>& folders, FoundBy by,
                         LoadedObject& into) const {
  return std::any_of(folders.begin(), folders.end(), [&](const std::string& folder) {
    return try_file(folder + (folder.ends_with('/') ? "" : "/") + into.name, by, into);
  });
}

std::vector<std::string> Loader::folders(const std::string& list, const std::string& origin) const {
  std::vector<std::string> found;
  if (list.empty()) return found;
  const std::string lib = machine_ == EM_X86_64 ? "lib/x86_64-linux-gnu" : "lib/aarch64-linux-gnu";
  for (const std::string_view part : split(list, ':')) {
    // An empty entry means the working directory of the program, which is unknown.
    if (part.empty()) continue;
    found.push_back(expanded(expanded(std::string(part), "ORIGIN", origin), "LIB", lib));
  }
  return found;
}

bool Loader::try_cache(bool without_defaults, LoadedObject& into) const {
  const auto rows = cache_.find(into.name);
  if (rows == cache_.end()) return false;
  return std::any_of(rows->second.begin(), rows->second.end(), [&](const std::string& path) {
    const bool is_default =
        std::find(defaults_.begin(), defaults_.end(), parent(path)) != defaults_.end();
    return !(without_defaults && is_default) && try_file(path, FoundBy::kCache, into);
  });
}

LoadedObject Loader::look_up(const std::string& name, int by) const {
  LoadedObject object;
  object.name = name;
  object.loader = by;
  if (name.find('/') != std::string::npos) {
    static_cast<void>(try_file(name, FoundBy::kPath, object));
    return object;
  }
  const LoadedObject* loader = by < 0 ? nullptr : &objects_.at(static_cast<std::size_t>(by));
  const auto origin = [](const LoadedObject& one) { return parent(one.path); };
  if (loader == nullptr || !loader->elf.has_runpath) {
    for (int i = by; i >= 0; i = objects_[static_cast<std::size_t>(i)].loader) {
      const LoadedObject& one = objects_[static_cast<std::size_t>(i)];
      if (try_folders(folders(one.elf.rpath, origin(one)), FoundBy::kRpath, object)) return object;
    }
    if (!objects_.empty() &&
        try_folders(folders(objects_[0].elf.rpath, origin(objects_[0])), FoundBy::kRpath, object))
      return object;
  }
  std::string list = library_path_;
  std::replace(list.begin(), list.end(), ';', ':');
  const std::string program = objects_.empty() ? "/" : origin(objects_[0]);
  if (try_folders(folders(list, program), FoundBy::kLibraryPath, object)) return object;
  if (loader != nullptr &&
      try_folders(folders(loader->elf.runpath, origin(*loader)), FoundBy::kRunpath, object))
    return object;
  const bool only_own = loader != nullptr && loader->elf.no_default_folders;
  if (try_cache(only_own, object)) return object;
  if (try_folders(configured_, FoundBy::kCache, object)) return object;
  if (!only_own) static_cast<void>(try_folders(defaults_, FoundBy::kDefault, object));
  return object;
}

int Loader::loaded(const std::string& name) const {
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    const LoadedObject& one = objects_[i];
    if (one.path.empty()) continue;
    if (one.name == name || one.path == name || one.elf.soname == name) return static_cast<int>(i);
  }
  return -1;
}

int Loader::add(const std::string& name, int by, FoundBy preload) {
  if (const int known = loaded(name); known >= 0) return known;
  LoadedObject object = look_up(name, by);
  if (object.path.empty()) {
    const bool told = std::any_of(objects_.begin(), objects_.end(), [&](const LoadedObject& one) {
      return one.path.empty() && one.name == name && one.loader == by;
    });
    if (!told) objects_.push_back(std::move(object));
    return -1;
  }
  // A file that is already loaded under another name is the same object.
  for (std::size_t i = 0; i < objects_.size(); ++i)
    if (objects_[i].path == object.path) return static_cast<int>(i);
  // glibc ignores an empty preloaded file
  if (preload == FoundBy::kPreload && object.is_empty) return -1;
  if (preload == FoundBy::kPreload) object.by = preload;
  objects_.push_back(std::move(object));
  return static_cast<int>(objects_.size()) - 1;
}

void Loader::load_needed(std::size_t from) {
  constexpr std::size_t kMost = 2000;
  for (std::size_t i = from; i < objects_.size() && objects_.size() < kMost; ++i) {
    const std::vector<std::string> needed = objects_[i].elf.needed;
    for (const std::string& name : needed)
      if (!name.empty()) add(name, static_cast<int>(i), FoundBy::kPath);
  }
}

void Loader::start(const std::string& path) {
  LoadedObject program;
  program.name = path;
  if (!try_file(tree_.resolve(path).value_or(path), FoundBy::kPath, program)) return;
  machine_ = program.elf.machine;
  const std::string tuple = machine_ == EM_AARCH64 ? "aarch64-linux-gnu" : "x86_64-linux-gnu";
  // Debian's default folders, in Debian's order. Other systems have /lib64 and /usr/lib64.
  defaults_ = {"/lib/" + tuple, "/usr/lib/" + tuple, "/lib", "/usr/lib"};
  if (!tree_.exists("/lib/" + tuple) && !tree_.exists("/usr/lib/" + tuple))
    defaults_ = {"/lib64", "/usr/lib64", "/lib", "/usr/lib"};
  objects_.push_back(std::move(program));
  std::string list = preload_;
  std::replace(list.begin(), list.end(), ' ', ':');
  for (const std::string_view name : split(list, ':'))
    if (!name.empty()) add(std::string(name), 0, FoundBy::kPreload);
  load_needed(0);
}

int Loader::open(const std::string& name, int by) {
  const std::size_t before = objects_.size();
  const int index = add(name, by, FoundBy::kPath);
  load_needed(before);
  return index;
}

}  // namespace berth::doctor
