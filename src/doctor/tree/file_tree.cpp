#include "doctor/tree/file_tree.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "base/text_parts.hpp"

namespace berth::doctor {
namespace {

constexpr int kMostLinks = 40;  // Linux has the same limit

/// Pushes the components of a path onto the stack `left`, the last component first, so that the
/// first one is on top.
void push_parts(std::string_view path, std::vector<std::string>& left) {
  // A path that ends in "/" must lead to a folder. "." at its end checks this.
  if (path.ends_with('/')) left.emplace_back(".");
  const auto parts = split(path, '/');
  for (auto part = parts.rbegin(); part != parts.rend(); ++part)
    if (!part->empty()) left.emplace_back(*part);
}

}  // namespace

void FileTree::Content::write(std::uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t within = offset % kPage;
    const std::size_t part = std::min(bytes.size(), kPage - within);
    std::string& page = pages_[offset - within];
    if (page.size() < within + part) page.resize(within + part);
    page.replace(within, part, bytes.substr(0, part));
    offset += part;
    bytes.remove_prefix(part);
    resize(offset);
  }
}

std::string FileTree::Content::read(std::uint64_t offset, std::size_t most) const {
  if (offset >= size_) return "";
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(most, size_ - offset));
  std::string bytes(size, '\0');
  auto page = pages_.upper_bound(offset);
  if (page != pages_.begin()) --page;
  for (; page != pages_.end() && page->first < offset + size; ++page) {
    const std::uint64_t from = std::max(offset, page->first);
    const std::uint64_t to = std::min(offset + size, page->first + page->second.size());
    if (from < to)
      page->second.copy(bytes.data() + (from - offset), static_cast<std::size_t>(to - from),
                        static_cast<std::size_t>(from - page->first));
  }
  return bytes;
}

FileTree::Found FileTree::find(std::string_view path, bool follow) const {
  if (path.empty()) return {nullptr, "", ENOENT};
  if (path.size() >= PATH_MAX) return {nullptr, "", ENAMETOOLONG};
  std::vector<std::pair<std::string_view, const Entry*>> way{{"", &root_}};
  std::vector<std::string> left;
  push_parts(path, left);
  for (int links = 0; !left.empty();) {
    if (way.back().second->type != NodeType::kFolder) return {nullptr, "", ENOTDIR};
    const std::string name = std::move(left.back());
    left.pop_back();
    if (name == ".") continue;
    if (name == "..") {
      if (way.size() > 1) way.pop_back();
      continue;
    }
    if (name.size() > NAME_MAX) return {nullptr, "", ENAMETOOLONG};
    const auto next = way.back().second->below.find(name);
    if (next == way.back().second->below.end()) return {nullptr, "", ENOENT};
    const Entry& entry = *next->second;
    if (entry.type == NodeType::kLink && (follow || !left.empty())) {
      if (links++ >= kMostLinks) return {nullptr, "", ELOOP};
      if (entry.target.starts_with('/')) way.resize(1);
      push_parts(entry.target, left);
      continue;
    }
    way.emplace_back(next->first, &entry);
  }
  Found found{way.back().second, "", 0};
  for (std::size_t i = 1; i < way.size(); ++i) {
    found.path += '/';
    found.path += way[i].first;
  }
  if (found.path.empty()) found.path = "/";
  return found;
}

/// The folder that contains the last component of `path`. Creates missing folders.
FileTree::Place FileTree::place(std::string_view path) {
  std::vector<Entry*> way{&root_};
  std::vector<std::string> left;
  push_parts(path, left);
  if (left.empty() || path.size() >= PATH_MAX) return {};
  std::string last = std::move(left.front());
  left.erase(left.begin());
  if (last == "." || last == ".." || last.size() > NAME_MAX) return {};
  for (int links = 0; !left.empty();) {
    const std::string name = std::move(left.back());
    left.pop_back();
    if (name == ".") continue;
    if (name == "..") {
      if (way.size() > 1) way.pop_back();
      continue;
    }
    if (name.size() > NAME_MAX) return {};
    auto& entry = way.back()->below[name];
    if (entry == nullptr) {
      entry = std::make_unique<Entry>();
      entry->layer = layer_;
      ++size_;
    }
    if (entry->type == NodeType::kFile) return {};
    if (entry->type == NodeType::kLink) {
      if (links++ >= kMostLinks) return {};
      if (entry->target.starts_with('/')) way.resize(1);
      push_parts(entry->target, left);
      continue;
    }
    way.push_back(entry.get());
  }
  return {way.back(), std::move(last)};
}

FileTree::Entry* FileTree::put(std::string_view path, Entry entry) {
  const Place at = place(path);
  if (at.folder == nullptr) return nullptr;
  auto& there = at.folder->below[at.name];
  if (there != nullptr && there->layer == layer_) return nullptr;
  if (there == nullptr) ++size_;
  there = std::make_unique<Entry>(std::move(entry));
  there->layer = layer_;
  return there.get();
}

FileTree::Entry* FileTree::put_file(std::string_view path, Content content, mode_t mode) {
  return put(path, {NodeType::kFile, mode, 0, "", std::move(content), {}});
}

FileTree::Entry* FileTree::put_link(std::string_view path, std::string target) {
  if (target.empty() || target.size() >= PATH_MAX) return nullptr;
  return put(path, {NodeType::kLink, 0777, 0, std::move(target), {}, {}});
}

FileTree::Entry* FileTree::make_folder(std::string_view path) {
  if (path == "/") return &root_;
  const Place at = place(path.substr(0, path.find_last_not_of('/') + 1));
  if (at.folder == nullptr) return nullptr;
  auto& there = at.folder->below[at.name];
  if (there == nullptr) {
    there = std::make_unique<Entry>();
    there->layer = layer_;
    ++size_;
  }
  return there->type == NodeType::kFolder ? there.get() : nullptr;
}

FileTree::Entry* FileTree::entry(std::string_view path) {
  return const_cast<Entry*>(find(path, false).entry);  // NOLINT(*-const-cast): this tree's own
}

bool FileTree::remove(std::string_view path) {
  const Found found = find(path, false);
  if (found.entry == nullptr || found.entry == &root_) return false;
  const Place at = place(found.path);
  return at.folder != nullptr && at.folder->below.erase(at.name) > 0;
}

}  // namespace berth::doctor
