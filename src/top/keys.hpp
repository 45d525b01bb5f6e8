// The settings of the live view, and how keys change them. Pure.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace berth::top {

inline constexpr const char* kThemes = "dark|light|mono";
inline constexpr const char* kSortKeys = "memory|sm|cpu|rss|age|user|pid|device";

inline constexpr const char* kGraphs = "use|memory|power|temperature";

/// The settings that are stored for the next run (top/kept.hpp).
struct Kept {
  std::string sort = "memory";  // the list's order: one of kSortKeys
  bool is_reversed = false;
  bool has_graphs = true;
  std::string graph = "use";   // the value in the graphs: one of kGraphs
  bool is_tree = false;        // show child processes below their parents
  bool by_user = false;        // show one row per user instead of one per process
  std::string theme = "dark";  // colours: one of kThemes
  [[nodiscard]] bool operator==(const Kept&) const = default;
};

struct Settings : Kept {
  std::string filter;     // show only processes that contain this text, ignoring case
  std::string user;       // show only this user's processes; "": all
  std::set<int> devices;  // show only these devices; empty: all
  bool utf8 = true;
  bool shows_help = false;
  bool types_filter = false;  // typed characters are added to `filter`
  int row = 0;                // the selected row of the process list
  bool has_row = false;       // whether a row is selected
  bool is_clicked = false;    // the last key was a click on the list
  bool wants_signal = false;  // the user wants to send a signal to the selected process
  std::string question;       // shown to the user; the next key is the answer
  int signal = 0;             // the signal that the user chose: SIGTERM or SIGKILL; 0: none
  std::string message;        // shown until the next key is pressed
  bool shows_queue = false;   // show the job queue instead of the processes
  /// What to do with the selected job: 'c' cancel, 'H' hold or release; 0: nothing.
  char job_change = 0;
  bool is_confirmed = false;  // the user has confirmed that the job is to be cancelled
  bool is_paused = false;     // whether a replay is paused
  int steps = 0;              // frames to move in a replay; negative: backwards
};

/// The keys of the keyboard. Their codes depend on the terminal.
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
  kClick,  // a mouse click: handled by click(), with the position in Pressed
};

/// Returns the order of the list. It is `sort`, unless one row per user is shown: users cannot be
/// sorted by age or pid.
[[nodiscard]] std::string_view order_of(const Settings& settings);

/// Applies a key. Returns false if the view should close. `character` is the character of a
/// kCharacter key.
[[nodiscard]] bool press(Settings& settings, Key key, char character = 0);

}  // namespace berth::top
