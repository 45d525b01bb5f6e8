#include "top/screen.hpp"

// Include ncurses separately and last: it defines macros with common names.
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "base/text.hpp"

#define NCURSES_NOMACROS
#define NCURSES_WIDECHAR 1
#include <ncurses.h>

#ifdef BERTH_HAS_TERMINFO
extern "C" {
extern const unsigned char berth_terminfo[], berth_terminfo_end[];
}
#endif

namespace berth::top {

namespace {

using output::Style;

volatile std::sig_atomic_t ended_by = 0;

extern "C" void note_end(int signal) {
  ended_by = signal;
}

Error no_terminal(const std::string& why) {
  return {ErrorCode::kUnsupported, "E0983", text("the live view needs a terminal: {}", why),
          "berth top --once"};
}

/// A folder with the terminfo of xterm-256color, for machines without an entry for TERM.
class OwnTerminfo {
 public:
  OwnTerminfo() {
#ifdef BERTH_HAS_TERMINFO
    const char* temporary = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
    folder_ = std::string(temporary != nullptr ? temporary : "/tmp") + "/berth-terminfo-XXXXXX";
    if (::mkdtemp(folder_.data()) == nullptr) {
      folder_.clear();
      return;
    }
    ::mkdir((folder_ + "/x").c_str(), 0700);
    std::ofstream file(folder_ + "/x/xterm-256color", std::ios::binary);
    file.write(reinterpret_cast<const char*>(berth_terminfo), berth_terminfo_end - berth_terminfo);
#endif
  }
  ~OwnTerminfo() {
    if (folder_.empty()) return;
    ::unlink((folder_ + "/x/xterm-256color").c_str());
    ::rmdir((folder_ + "/x").c_str());
    ::rmdir(folder_.c_str());
  }
  OwnTerminfo(const OwnTerminfo&) = delete;
  OwnTerminfo& operator=(const OwnTerminfo&) = delete;
  [[nodiscard]] const std::string& folder() const {
    return folder_;
  }

 private:
  std::string folder_;
};

SCREEN* open_screen() {
  if (SCREEN* screen = ::newterm(nullptr, stdout, stdin)) return screen;
  if (SCREEN* screen = ::newterm("xterm-256color", stdout, stdin)) return screen;
  const OwnTerminfo own;
  if (own.folder().empty()) return nullptr;
  ::setenv("TERMINFO", own.folder().c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  return ::newterm("xterm-256color", stdout, stdin);
}

/// Yellow and cyan cannot be read on a light background.
void set_colors(bool is_light) {
  const std::array<std::pair<Style, short>, 4> colors = {
      {{Style::kRed, COLOR_RED},
       {Style::kYellow, is_light ? COLOR_MAGENTA : COLOR_YELLOW},
       {Style::kGreen, is_light ? COLOR_BLUE : COLOR_GREEN},
       {Style::kCyan, is_light ? COLOR_BLUE : COLOR_CYAN}}};
  for (const auto& [style, color] : colors) ::init_pair(static_cast<short>(style), color, -1);
}

void prepare_colors() {
  ::start_color();
  ::use_default_colors();
  set_colors(false);
}

attr_t attributes_of(Style style, bool color) {
  switch (style) {
    case Style::kPlain:
      return A_NORMAL;
    case Style::kBold:
      return A_BOLD;
    case Style::kDim:
      return A_DIM;
    default:
      return color ? static_cast<attr_t>(COLOR_PAIR(static_cast<int>(style))) : A_NORMAL;
  }
}

/// The mouse wheel moves through the list, and the first button clicks.
Pressed mouse() {
  MEVENT event = {};
  const bool is_known = ::getmouse(&event) == OK;
  if (is_known && (event.bstate & BUTTON4_PRESSED) != 0) return {Key::kUp};
  if (is_known && (event.bstate & BUTTON5_PRESSED) != 0) return {Key::kDown};
  if (is_known && (event.bstate & (BUTTON1_PRESSED | BUTTON1_CLICKED)) != 0)
    return {Key::kClick, 0, event.x, event.y};
  return {Key::kCharacter, 0};
}

Pressed pressed_of(int code) {
  switch (code) {
    case KEY_UP:
      return {Key::kUp};
    case KEY_DOWN:
      return {Key::kDown};
    case KEY_PPAGE:
      return {Key::kPageUp};
    case KEY_NPAGE:
      return {Key::kPageDown};
    case KEY_LEFT:
      return {Key::kLeft};
    case KEY_RIGHT:
      return {Key::kRight};
    case KEY_MOUSE:
      return mouse();
    case KEY_HOME:
      return {Key::kHome};
    case KEY_END:
      return {Key::kEnd};
    case KEY_ENTER:
    case '\n':
    case '\r':
      return {Key::kEnter};
    case 27:
      return {Key::kEscape};
    case KEY_BACKSPACE:
    case 127:
    case 8:
      return {Key::kBackspace};
    default:
      return {Key::kCharacter, static_cast<char>(code)};
  }
}

bool is_text(int code) {
  return code >= 32 && code < 256;
}

}  // namespace

Result<std::unique_ptr<Screen>> Screen::open(bool color, bool mouse) {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0)
    return no_terminal(text("stdin or stdout is not a terminal"));
  std::setlocale(LC_CTYPE, "");  // NOLINT(concurrency-mt-unsafe)
  SCREEN* screen = open_screen();
  if (screen == nullptr) return no_terminal(text("TERM is not known here"));
  ::set_term(screen);
  ::cbreak();
  ::noecho();
  ::nonl();
  ::keypad(stdscr, true);
  ::nodelay(stdscr, true);
  ::set_escdelay(50);
  ::mouseinterval(0);  // a press is a click, without waiting for a second one
  if (mouse)
    ::mousemask(BUTTON1_PRESSED | BUTTON1_CLICKED | BUTTON4_PRESSED | BUTTON5_PRESSED, nullptr);
  ::curs_set(0);
  const bool has_color = color && ::has_colors();
  if (has_color) prepare_colors();
  struct sigaction end = {};
  end.sa_handler = note_end;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &end, nullptr);
  return std::unique_ptr<Screen>(new Screen(screen, has_color));
}

Screen::Screen(void* screen, bool color) : screen_(screen), color_(color) {}

Screen::~Screen() {
  ::endwin();
  ::delscreen(static_cast<SCREEN*>(screen_));
}

void Screen::paint(const std::string& theme) {
  if (theme == theme_) return;
  theme_ = theme;
  if (color_) set_colors(theme == "light");
}

Screen::Size Screen::size() const {
  return {::getmaxx(stdscr), ::getmaxy(stdscr)};
}

void Screen::show(const std::vector<Line>& lines) {
  // Most lines are the same as a second ago.
  const Size now = size();
  const bool is_whole = now != shown_size_ || theme_ != shown_theme_;
  if (is_whole) ::werase(stdscr);
  for (std::size_t row = 0; row < std::max(lines.size(), shown_.size()); ++row) {
    const bool is_left = row < lines.size();
    if (!is_whole && is_left && row < shown_.size() && lines[row] == shown_[row]) continue;
    if (::wmove(stdscr, static_cast<int>(row), 0) != OK) break;
    ::wattrset(stdscr, A_NORMAL);
    ::wclrtoeol(stdscr);
    if (!is_left) continue;
    for (const Span& span : lines[row]) {
      ::wattrset(stdscr, static_cast<int>(attributes_of(span.style, color_ && theme_ != "mono")));
      ::waddnstr(stdscr, span.text.c_str(), static_cast<int>(span.text.size()));
    }
  }
  ::wattrset(stdscr, A_NORMAL);
  ::wrefresh(stdscr);
  shown_ = lines;
  shown_size_ = now;
  shown_theme_ = theme_;
}

bool Screen::is_over() const {
  return is_over_ || ended_by != 0;
}

std::vector<Pressed> Screen::wait(int also) {
  std::vector<Pressed> pressed;
  std::array<pollfd, 2> wanted = {{{STDIN_FILENO, POLLIN, 0}, {also, POLLIN, 0}}};
  if (is_over()) return pressed;
  const int ready = ::poll(wanted.data(), wanted.size(), -1);
  if (ready < 0 && errno != EINTR) is_over_ = true;
  if ((wanted[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) is_over_ = true;
  constexpr int kMostAtOnce = 256;
  for (int i = 0; i < kMostAtOnce; ++i) {
    const int code = ::wgetch(stdscr);
    if (code == ERR) break;
    const Pressed one = pressed_of(code);
    if (one.key != Key::kCharacter || (one.character != 0 && is_text(code))) pressed.push_back(one);
  }
  return pressed;
}

}  // namespace berth::top
