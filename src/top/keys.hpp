// The settings of the live view, and how keys change them. Pure.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace berth::top {

inline constexpr const char* kThemes = "dark|light|mono";
inline constexpr const char* kSortKeys = "memory|sm|cpu|rss|age|user|pid|device";

inline constexpr const char* kGraphs = "use|memory|power|temperature";

/// The settings that are stored between two runs (top/kept.hpp).
struct Kept {
  std::string sort = "memory";  // one of kSortKeys
  bool is_reversed = false;
  bool has_graphs = true;
  std::string graph = "use";   // one of kGraphs
  bool is_tree = false;        // children below their parents
  bool by_user = false;        // one row a user
  std::string theme = "dark";  // one of kThemes
  [[nodiscard]] bool operator==(const Kept&) const = default;
};

struct Settings : Kept {
  std::string filter;     // show only processes that contain this text, ignoring case
  std::string user;       // only this user's processes; "": all
  std::set<int> devices;  // show only these devices; empty: all
  bool utf8 = true;
  bool shows_help = false;
  bool types_filter = false;  // typed characters are added to `filter`
  int row = 0;                // the selected row of the process list
  bool has_row = false;       // whether one is selected
  bool is_clicked = false;    // the last key was a click on the list
  bool wants_signal = false;  // the user wants to send a signal to the process of that row
  std::string question;       // the next key answers it
  int signal = 0;             // the signal that the user chose: SIGTERM or SIGKILL; 0: none
  std::string message;        // until the next key
  bool shows_queue = false;   // shows jobs instead of processes
  char job_change = 0;        // for the selected job: 'c' cancel, 'H' hold or release; 0: none
  bool is_confirmed = false;  // cancelling was confirmed
  bool is_paused = false;     // whether a replay is paused
  int steps = 0;              // in a replay: number of frames to move forward; negative: back
};

/// Keys whose codes depend on the terminal.
enum class Key : unsigned char {
  kCharacter,
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kEnter,
  kEscape,
  kBackspace,
  kLeft,
  kRight,
  kClick,  // Pressed has its position; click() handles it
};

/// The order of the list: `sort`, but users have no age and no pid.
[[nodiscard]] std::string_view order_of(const Settings& settings);

/// Applies a key. Returns false if the view should close. `character` is for kCharacter.
[[nodiscard]] bool press(Settings& settings, Key key, char character = 0);

}  // namespace berth::top
