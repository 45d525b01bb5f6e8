#include "doctor/tree/tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "base/text_parts.hpp"

namespace berth::doctor {
namespace {

/// Whether the error means that nothing exists at the path. This includes ENOTDIR and ELOOP.
bool is_absence(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG;
}

NodeType type_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return NodeType::kFolder;
    case S_IFLNK:
      return NodeType::kLink;
    case S_IFCHR:
      return NodeType::kCharacter;
    case S_IFBLK:
      return NodeType::kBlock;
    case S_IFIFO:
      return NodeType::kFifo;
    case S_IFSOCK:
      return NodeType::kSocket;
    default:
      return NodeType::kFile;
  }
}

Descriptor open_inside(int folder, const std::string& path, int flags) {
  open_how how = {};
  how.flags = static_cast<unsigned>(flags);
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  // The kernel may return EAGAIN for a path with ".." while any file on the machine is being
  // renamed, so try again.
  constexpr int kTries = 200;
  int fd = -1;
  for (int i = 0; i < kTries && fd < 0; ++i) {
    fd = static_cast<int>(::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how));
    if (fd < 0 && errno != EAGAIN) break;
  }
  return Descriptor(fd);
}

/// The errno that open(O_RDWR) would return, according to mode and device cgroup. The device is not
/// opened, because this would wake a sleeping GPU and block on a hung driver.
std::optional<int> refusal(int node) {
  if (::syscall(SYS_faccessat2, node, "", R_OK | W_OK, AT_EACCESS | AT_EMPTY_PATH) == 0) return 0;
  if (errno == ENOSYS || errno == EINVAL) return std::nullopt;
  return errno;
}

}  // namespace

template <typename T>
Fact<T> Tree::failed(const std::string& path, int error) const {
  if (is_absence(error)) {
    const std::string_view mount = unmounted(path);
    if (mount.empty()) return {};
    if (!refused_) refused_ = Unreadable{std::string(mount), ENOENT};
    return Unreadable{std::string(mount), ENOENT};
  }
  if (recording_) recording_->specials[path].error = error;
  if (!refused_) refused_ = Unreadable{path, error};
  return Unreadable{path, error};
}

std::string_view Tree::unmounted(const std::string& path) const {
  for (KernelFiles& one : kernel_files_) {
    if (!path.starts_with(one.folder) || path.size() <= one.folder.size() ||
        path[one.folder.size()] != '/')
      continue;
    if (!one.is_there) one.is_there = has_entries(std::string(one.folder));
    return *one.is_there ? "" : one.folder;
  }
  return "";
}

/// Whether the folder may have entries. This is true for an unreadable folder.
bool Tree::has_entries(const std::string& folder) const {
  const std::string below = folder + "/";
  const auto row = specials_.lower_bound(below);
  if (row != specials_.end() && row->first.starts_with(below)) return true;
  if (std::any_of(mounts_.begin(), mounts_.end(),
                  [&](const Mount& one) { return one.path == below; }))
    return true;
  std::vector<std::string> names;
  const int error = add_names(folder, 1, names);
  return error == 0 ? !names.empty() : !is_absence(error);
}

bool OpenFile::read_at(std::uint64_t offset, void* into, std::size_t size) const {
  if (offset > 1ULL << 62) return false;
  if (content_ != nullptr) {
    if (offset > content_->size() || size > content_->size() - offset) return false;
    content_->read(offset, size).copy(static_cast<char*>(into), size);
  } else {
    const ssize_t n = ::pread(fd_->get(), into, size, static_cast<off_t>(offset));
    if (n != static_cast<ssize_t>(size)) return false;
  }
  if (recorded_ != nullptr) recorded_->parts[offset].assign(static_cast<const char*>(into), size);
  return true;
}

Tree::Tree(const std::string& root)
    : root_(root), folder_(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}

void Tree::mount(const std::string& path, const std::string& folder) {
  mounts_.push_back(
      {path + "/", Descriptor(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC))});
}

/// A silenced path is on a file server that does not respond. Each component is compared with these
/// paths before a link in it is read, so readlink() never blocks.
bool Tree::is_silent(const std::string& path) const {
  if (silent_.empty()) return false;
  constexpr int kMostLinks = 40;
  std::string reached, rest = path;
  for (int links = 0; links < kMostLinks;) {
    const std::size_t start = rest.find_first_not_of('/');
    if (start == std::string::npos) return false;
    const std::size_t end = std::min(rest.find('/', start), rest.size());
    const std::string name = rest.substr(start, end - start);
    rest.erase(0, end);
    if (name == ".") continue;
    if (name == "..") {
      reached.resize(std::min(reached.rfind('/'), reached.size()));
      continue;
    }
    const std::string here = reached + "/" + name;
    if (std::find(silent_.begin(), silent_.end(), here) != silent_.end()) return true;
    std::string to;
    if (files_ != nullptr) {
      if (const auto found = files_->find(here, false); found.entry != nullptr)
        to = found.entry->target;
    } else {
      std::array<char, PATH_MAX> target{};
      const ssize_t size = ::readlink(((is_this_machine() ? "" : root_) + here).c_str(),
                                      target.data(), target.size());
      if (size > 0) to.assign(target.data(), static_cast<std::size_t>(size));
    }
    if (to.empty()) {
      reached = here;
      continue;
    }
    ++links;
    if (to.starts_with('/')) reached.clear();
    rest.insert(0, to);
  }
  return false;
}

const Special* Tree::special(const std::string& path) const {
  const auto found = specials_.find(path);
  return found == specials_.end() ? nullptr : &found->second;
}

int Tree::refused_with(const std::string& path) const {
  const Special* special = this->special(path);
  if (special != nullptr && special->error != 0) return special->error;
  return is_silent(path) ? ETIMEDOUT : 0;
}

bool Tree::is_in_memory(const std::string& path) const {
  return files_ != nullptr && std::none_of(mounts_.begin(), mounts_.end(), [&](const Mount& one) {
           return path.starts_with(one.path);
         });
}

FileTree::Found Tree::find(const std::string& path, bool follow) const {
  if (const int error = refused_with(path); error != 0) return {nullptr, "", error};
  return files_->find(path, follow);
}

Descriptor Tree::open(const std::string& path, int flags, int& error) const {
  error = refused_with(path);
  if (error != 0) return {};
  flags |= O_CLOEXEC;
  // O_NONBLOCK avoids waiting for the writer of a FIFO or the carrier of a terminal. openat2()
  // rejects these two flags together with O_PATH.
  if ((flags & O_PATH) == 0) flags |= O_NONBLOCK | O_NOCTTY;
  Descriptor fd;
  const auto mount = std::find_if(mounts_.begin(), mounts_.end(),
                                  [&](const Mount& one) { return path.starts_with(one.path); });
  if (mount != mounts_.end())
    fd = open_inside(mount->folder.get(), path.substr(mount->path.size()), flags);
  else if (is_this_machine())
    fd.reset(::open(path.c_str(), flags));
  else
    fd = open_inside(folder_.get(), path, flags);
  error = fd ? 0 : errno;
  return fd;
}

Fact<std::string> Tree::content(const std::string& path, std::size_t limit, bool from_end,
                                bool& is_more) const {
  if (is_in_memory(path)) {
    const auto found = find(path);
    if (found.entry == nullptr) return failed<std::string>(path, found.error);
    if (found.entry->type == NodeType::kFolder) return Unreadable{path, EISDIR};
    const FileTree::Content& content = found.entry->content;
    is_more = content.size() > limit;
    return content.read(from_end && is_more ? content.size() - limit : 0, limit);
  }
  int error = 0;
  const Descriptor fd = open(path, O_RDONLY, error);
  if (!fd) return failed<std::string>(path, error);
  struct stat about {};
  if (::fstat(fd.get(), &about) != 0) return Unreadable{path, errno};
  if (!S_ISREG(about.st_mode)) return Unreadable{path, S_ISDIR(about.st_mode) ? EISDIR : EINVAL};
  if (from_end && about.st_size > static_cast<off_t>(limit))
    ::lseek(fd.get(), about.st_size - static_cast<off_t>(limit), SEEK_SET);
  std::string text;
  std::array<char, 1 << 14> part;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
  while (text.size() < limit) {
    const ssize_t n = ::read(fd.get(), part.data(), std::min(part.size(), limit - text.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Unreadable{path, errno};
    if (n == 0) break;
    text.append(part.data(), static_cast<std::size_t>(n));
  }
  char more = 0;
  is_more = text.size() == limit && ::read(fd.get(), &more, 1) == 1;
  return text;
}

Fact<std::string> Tree::read_from(const std::string& path, std::size_t limit, bool from_end) const {
  bool is_more = false;
  auto text = content(path, limit, from_end, is_more);
  if (!text) return text;
  if (recording_) {
    note_links(path);
    // A shorter read must not replace a longer one in the recording.
    Recording::File& file = recording_->files[path];
    std::string& read = file.parts[0];
    if (text->size() >= read.size()) {
      file.is_cut = !from_end && limit > 1024 && is_more;
      read = *text;
    }
    if (file.parts.size() == 1) file.size = read.size();
  }
  return text;
}

Fact<OpenFile> Tree::open_file(const std::string& path) const {
  const auto noted = [&](std::uint64_t size) -> Recording::File* {
    if (!recording_) return nullptr;
    note_links(path);
    recording_->files[path].size = size;
    return &recording_->files[path];
  };
  if (is_in_memory(path)) {
    const auto found = find(path);
    if (found.entry == nullptr) return failed<OpenFile>(path, found.error);
    if (found.entry->type != NodeType::kFile) return Unreadable{path, EINVAL};
    const FileTree::Content& content = found.entry->content;
    return OpenFile(std::shared_ptr<const FileTree::Content>(files_, &content),
                    noted(content.size()));
  }
  int error = 0;
  Descriptor file = open(path, O_RDONLY, error);
  if (!file) return failed<OpenFile>(path, error);
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return Unreadable{path, errno};
  if (!S_ISREG(about.st_mode)) return Unreadable{path, EINVAL};
  return OpenFile(std::move(file), noted(static_cast<std::uint64_t>(about.st_size)));
}

Fact<std::string> Tree::read(const std::string& path, std::size_t limit) const {
  return read_from(path, limit, false);
}

Fact<std::string> Tree::read_end(const std::string& path, std::size_t limit) const {
  return read_from(path, limit, true);
}

Fact<std::string> Tree::line(const std::string& path) const {
  return read(path, 1 << 14).map([](const std::string& text) {
    return std::string(trim(std::string_view(text).substr(0, text.find('\n'))));
  });
}

int Tree::add_names(const std::string& path, std::size_t most,
                    std::vector<std::string>& names) const {
  if (is_in_memory(path)) {
    const auto found = find(path);
    if (found.entry == nullptr) return found.error;
    if (found.entry->type != NodeType::kFolder) return ENOTDIR;
    for (const auto& [name, entry] : found.entry->below) {
      if (names.size() >= most) break;
      names.push_back(name);
    }
    return 0;
  }
  int error = 0;
  Descriptor fd = open(path, O_RDONLY | O_DIRECTORY, error);
  if (!fd) return error;
  DIR* stream = ::fdopendir(fd.get());
  if (stream == nullptr) return errno;
  static_cast<void>(fd.release());
  while (const dirent* entry = ::readdir(stream)) {  // NOLINT(concurrency-mt-unsafe): its own
    const std::string_view name(entry->d_name);
    if (name == "." || name == "..") continue;
    if (names.size() >= most) break;
    names.emplace_back(name);
  }
  ::closedir(stream);
  return 0;
}

Fact<std::vector<std::string>> Tree::list(const std::string& path, std::size_t most) const {
  std::vector<std::string> names;
  const std::string below = path.ends_with('/') ? path : path + "/";
  for (auto row = specials_.lower_bound(below); row != specials_.end(); ++row) {
    if (!row->first.starts_with(below)) break;
    if (row->second.node && row->first.find('/', below.size()) == std::string::npos)
      names.push_back(row->first.substr(below.size()));
  }
  const int error = add_names(path, most, names);
  if (error != 0 && names.empty()) return failed<std::vector<std::string>>(path, error);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (recording_) recording_->folders[path] = names;
  return names;
}

Fact<std::string> Tree::link(const std::string& path) const {
  if (is_in_memory(path)) {
    const auto found = find(path, false);
    if (found.entry == nullptr) return failed<std::string>(path, found.error);
    if (found.entry->type != NodeType::kLink) return {};
    if (recording_) recording_->links[path] = found.entry->target;
    return found.entry->target;
  }
  int error = 0;
  const Descriptor fd = open(path, O_PATH | O_NOFOLLOW, error);
  if (!fd) return failed<std::string>(path, error);
  std::string target(PATH_MAX, '\0');
  const ssize_t n = ::readlinkat(fd.get(), "", target.data(), target.size());
  if (n < 0)
    return errno == EINVAL || errno == ENOENT ? Fact<std::string>() : Unreadable{path, errno};
  target.resize(static_cast<std::size_t>(n));
  if (recording_) recording_->links[path] = target;
  return target;
}

Fact<std::string> Tree::resolve(const std::string& path) const {
  if (is_in_memory(path)) {
    const auto found = find(path);
    if (found.entry == nullptr) return failed<std::string>(path, found.error);
    if (recording_ && found.path != path) note_links(path);
    return found.path;
  }
  int error = 0;
  const Descriptor fd = open(path, O_PATH, error);
  if (!fd) return failed<std::string>(path, error);
  const auto name_of = [](int number) -> std::string {
    std::string name(PATH_MAX, '\0');
    const std::string link = "/proc/self/fd/" + std::to_string(number);
    const ssize_t n = ::readlink(link.c_str(), name.data(), name.size());
    name.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    return name;
  };
  std::string name = name_of(fd.get());
  if (name.empty()) return Unreadable{path, ENOSYS};
  const std::string root = name_of(folder_.get());
  if (root.size() > 1 && name.starts_with(root)) name.erase(0, root.size());
  if (name.empty()) name = "/";
  if (recording_ && name != path) note_links(path);
  return name;
}

/// Records every link that resolving `path` follows.
void Tree::note_links(std::string path) const {
  std::size_t slash = 0;
  for (int links = 0; slash < path.size() && links < 40;) {
    slash = std::min(path.find('/', slash + 1), path.size());
    const auto target = link(path.substr(0, slash));
    if (!target) continue;
    const std::string folder =
        target->starts_with('/') ? "" : path.substr(0, path.rfind('/', slash - 1) + 1);
    path = folder + *target + path.substr(slash);
    slash = 0;
    ++links;
  }
}

void Tree::note(const std::string& path, const Node& node) const {
  note_links(path);
  if (node.type == NodeType::kFolder) {
    recording_->folders[path];
    recording_->looked_at.insert(path);
  } else if (node.type == NodeType::kFile) {
    // The kernel's own files have size 0. So if the file was read, the length of what was read is
    // used as its size.
    if (Recording::File& file = recording_->files[path]; file.parts.empty()) file.size = node.size;
    // In a bundle, an empty file may be a file without recorded content. A library that is really
    // empty is therefore marked in the bundle's table of special files.
    if (node.is_empty && path.find(".so") != std::string::npos)
      recording_->specials[path].node = node;
  } else if (Special& row = recording_->specials[path]; !row.node || node.open_error)
    row.node = node;
}

Fact<Node> Tree::node(const std::string& path, bool try_open) const {
  if (const Special* row = special(path); row != nullptr && row->node) {
    if (recording_) recording_->specials[path] = *row;
    return *row->node;
  }
  Node node;
  if (is_in_memory(path)) {
    const auto found = find(path);
    if (found.entry == nullptr) return failed<Node>(path, found.error);
    node.type = found.entry->type;
    node.mode = found.entry->mode;
    node.size = found.entry->content.size();
    if (recording_) note(path, node);
    return node;
  }
  int error = 0;
  const Descriptor fd = open(path, O_PATH, error);
  if (!fd) return failed<Node>(path, error);
  struct stat about {};
  if (::fstat(fd.get(), &about) != 0) return Unreadable{path, errno};
  node.type = type_of(about.st_mode);
  node.mode = about.st_mode & 07777;
  node.uid = about.st_uid;
  node.gid = about.st_gid;
  node.size = static_cast<std::uint64_t>(about.st_size);
  node.is_empty = node.type == NodeType::kFile && node.size == 0 && is_this_machine();
  node.modified = about.st_mtime;
  node.changed = about.st_ctime;
  if (node.type == NodeType::kCharacter || node.type == NodeType::kBlock) {
    node.major = gnu_dev_major(about.st_rdev);
    node.minor = gnu_dev_minor(about.st_rdev);
    if (try_open) node.open_error = refusal(fd.get());
  }
  if (recording_) note(path, node);
  return node;
}

Fact<std::int64_t> Tree::changed(const std::string& path) const {
  const std::string real = resolve(path).value_or(path);
  const auto about = node(real);
  if (about.is_unreadable()) return about.why();
  if (!about || about->changed == 0) return {};
  // In a recording, only files with an entry in the table of special files have their original
  // ctime. For other files, it is the ctime of the copy.
  if (!is_this_machine() && special(real) == nullptr) return {};
  if (recording_) recording_->specials[real].node = *about;
  return about->changed;
}

}  // namespace berth::doctor
