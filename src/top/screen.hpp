// The terminal of the live view: ncurses for its keys and modes, and a fallback for unknown
// terminals. The picture is drawn by Painter.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "top/draw.hpp"
#include "top/keys.hpp"
#include "top/painter.hpp"

namespace berth::top {

struct Pressed {
  Key key = Key::kCharacter;
  char character = 0;
  int x = 0, y = 0;  // position of a mouse click
};

/// The terminal. There is only one object per process, because ncurses and signals are global.
/// Restores the terminal at the end, also after SIGINT and SIGTERM.
class Screen {
 public:
  /// Opens the terminal of stdin and stdout. An unknown TERM is treated as xterm-256color. Fails
  /// with kUnsupported (E0983) if they are no terminal, or one that cannot draw.
  [[nodiscard]] static Result<std::unique_ptr<Screen>> open(bool color, bool mouse);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  [[nodiscard]] PictureSize size() const;
  /// Sets the colours for the next drawings. `theme`: one of kThemes.
  void paint(const std::string& theme);
  void show(std::vector<Line> lines);
  /// Waits for a key, a resize, a signal, or data on the descriptor `also`, which is not read.
  /// Returns the pressed keys.
  [[nodiscard]] std::vector<Pressed> wait(int also);
  /// Whether SIGINT, SIGTERM or SIGHUP arrived, or the terminal is gone.
  [[nodiscard]] bool is_over() const;

 private:
  Screen(void* screen, bool color, TerminalWords words);
  void stop();
  void* screen_;  // the SCREEN object of ncurses
  bool color_;    // the terminal has colours, and the user has not disabled them
  TerminalWords words_;
  std::string theme_;
  bool is_whole_ = true;     // draw everything, not only what has changed
  std::vector<Line> shown_;  // the lines that the terminal shows now
  PictureSize shown_size_;
  bool is_over_ = false;
};

}  // namespace berth::top
