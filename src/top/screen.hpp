// The terminal of the live view: ncurses, and a fallback for unknown terminals.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "top/draw.hpp"
#include "top/keys.hpp"

namespace berth::top {

struct Pressed {
  Key key = Key::kCharacter;
  char character = 0;
  int x = 0, y = 0;  // position of a click
};

/// Only one per process, because ncurses and signals are global. Restores the terminal at the end,
/// also after SIGINT and SIGTERM.
class Screen {
 public:
  /// Uses the terminal of stdin and stdout. An unknown TERM is treated as xterm-256color. Fails
  /// with kUnsupported (E0983: not a terminal, or one that cannot draw).
  [[nodiscard]] static Result<std::unique_ptr<Screen>> open(bool color, bool mouse);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  struct Size {
    int width = 80, height = 24;
    bool operator==(const Size&) const = default;
  };
  [[nodiscard]] Size size() const;
  /// The colours from the next drawing on: one of kThemes.
  void paint(const std::string& theme);
  void show(const std::vector<Line>& lines);
  /// Waits for a key, a resize, a signal, or data on `also` (not read). Returns the pressed keys.
  [[nodiscard]] std::vector<Pressed> wait(int also);
  /// Whether SIGINT, SIGTERM or SIGHUP arrived, or the terminal is gone.
  [[nodiscard]] bool is_over() const;

 private:
  Screen(void* screen, bool color);
  void* screen_;  // ncurses' SCREEN
  bool color_;    // the terminal has colours, and the user wants them
  std::string theme_;
  std::vector<Line> shown_;  // with this size and theme
  Size shown_size_;
  std::string shown_theme_;
  bool is_over_ = false;
};

}  // namespace berth::top
