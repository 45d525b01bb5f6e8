#include "top/kept.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/file.hpp"
#include "base/text_parts.hpp"
#include "base/toml_table.hpp"
#include "base/write_file.hpp"

namespace berth::top {

void read_kept(const std::string& file, Kept& settings) {
  const auto document = slurp(file);
  if (!document) return;
  std::vector<std::string> orders;
  for (const std::string_view one : split(std::string_view(kSortKeys), '|'))
    orders.emplace_back(one);
  Kept read = settings;
  const auto found = std::find(orders.begin(), orders.end(), settings.sort);
  std::vector<std::string> themes;
  for (const std::string_view one : split(std::string_view(kThemes), '|')) themes.emplace_back(one);
  const auto painted = std::find(themes.begin(), themes.end(), settings.theme);
  int theme = painted == themes.end() ? 0 : static_cast<int>(painted - themes.begin());
  int order = found == orders.end() ? 0 : static_cast<int>(found - orders.begin());
  std::vector<std::string> graphs;
  for (const std::string_view one : split(std::string_view(kGraphs), '|')) graphs.emplace_back(one);
  const auto drawn = std::find(graphs.begin(), graphs.end(), settings.graph);
  int graph = drawn == graphs.end() ? 0 : static_cast<int>(drawn - graphs.begin());
  const auto done = TomlTable::read(*document, file, "docs/watch.md", [&](TomlTable& top) {
    top.choice("sort", order, orders);
    top.flag("reverse", read.is_reversed);
    top.flag("graphs", read.has_graphs);
    top.flag("tree", read.is_tree);
    top.flag("by_user", read.by_user);
    top.choice("theme", theme, themes);
    top.choice("graph", graph, graphs);
  });
  if (!done) return;
  read.sort = orders.at(static_cast<std::size_t>(order));
  read.theme = themes.at(static_cast<std::size_t>(theme));
  read.graph = graphs.at(static_cast<std::size_t>(graph));
  settings = read;
}

bool keep_changes(const std::string& file, const Kept& before, const Kept& after) {
  Kept kept;
  read_kept(file, kept);
  if (after.sort != before.sort) kept.sort = after.sort;
  if (after.is_reversed != before.is_reversed) kept.is_reversed = after.is_reversed;
  if (after.has_graphs != before.has_graphs) kept.has_graphs = after.has_graphs;
  if (after.is_tree != before.is_tree) kept.is_tree = after.is_tree;
  if (after.by_user != before.by_user) kept.by_user = after.by_user;
  if (after.theme != before.theme) kept.theme = after.theme;
  if (after.graph != before.graph) kept.graph = after.graph;
  const std::string folder = file.substr(0, file.rfind('/'));
  // Create the folder and its parent, but nothing above them. If the home folder is missing,
  // nothing is stored.
  ::mkdir(folder.substr(0, folder.rfind('/')).c_str(), 0700);
  ::mkdir(folder.c_str(), 0700);
  return replace_file(
      file,
      fmt::format(
          "sort = \"{}\"\nreverse = {}\ngraphs = {}\ngraph = \"{}\"\ntree = {}\nby_user = {}\n"
          "theme = \"{}\"\n",
          kept.sort, kept.is_reversed, kept.has_graphs, kept.graph, kept.is_tree, kept.by_user,
          kept.theme),
      0600);
}

}  // namespace berth::top
