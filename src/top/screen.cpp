#include "top/screen.hpp"

// The ncurses headers come last, because they define macros with common names.
#include <fmt/format.h>
#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
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
#include <functional>
#include <string_view>
#include <utility>

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

/// Ctrl-Z was pressed. The handler of ncurses is replaced, because it would draw an empty picture
/// when the process continues.
volatile std::sig_atomic_t stop_asked = 0;

extern "C" void note_stop(int) {
  stop_asked = 1;
}

/// The process continues after a stop. Other programs may have written to the terminal in the
/// meantime.
volatile std::sig_atomic_t returned = 0;

extern "C" void note_return(int) {
  returned = 1;
}

Error no_terminal(const std::string& why) {
  return {ErrorCode::kUnsupported, "E0983", text("the live view needs a terminal: {}", why),
          "berth top --once"};
}

/// A temporary folder with a terminfo entry for xterm-256color, for machines that have no entry for
/// TERM.
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
  // This program draws by itself, so ncurses does not need the size of the terminal.
  ::use_env(false);
  if (SCREEN* screen = ::newterm(nullptr, stdout, stdin)) return screen;
  if (SCREEN* screen = ::newterm("xterm-256color", stdout, stdin)) return screen;
  const OwnTerminfo own;
  if (own.folder().empty()) return nullptr;
  ::setenv("TERMINFO", own.folder().c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  return ::newterm("xterm-256color", stdout, stdin);
}

/// Returns a string of terminfo without its delays, which modern terminals do not need; "" if the
/// terminal lacks it.
std::string capability(const char* name) {
  const char* found = ::tigetstr(name);
  if (found == nullptr || found == reinterpret_cast<const char*>(-1)) return "";
  std::string bytes = found;
  for (auto at = bytes.find("$<"); at != std::string::npos; at = bytes.find("$<")) {
    const auto end = bytes.find('>', at);
    bytes.erase(at, end == std::string::npos ? end : end + 1 - at);
  }
  return bytes;
}

/// Returns a string of terminfo with its parameters replaced by numbers.
std::string filled(const std::string& format, int first, int second = 0) {
  if (format.empty()) return "";
  const char* made = ::tparm(format.c_str(), first, second, 0, 0, 0, 0, 0, 0, 0);
  return made == nullptr ? "" : made;
}

std::function<std::string(int, int)> mover() {
  const std::string format = capability("cup");
  if (format.empty()) return nullptr;
  // Nearly all terminals use this format to move the cursor. To format it here is faster than
  // tparm().
  if (format == "\033[%i%p1%d;%p2%dH")
    return [](int row, int column) { return fmt::format("\033[{};{}H", row + 1, column + 1); };
  return [format](int row, int column) { return filled(format, row, column); };
}

/// Sets the escape sequences of all styles. The light theme avoids yellow and cyan, which are
/// unreadable on a light background.
void set_styles(const std::string& theme, bool color, TerminalWords& words) {
  const bool is_light = theme == "light";
  words.styles = {};
  const auto set = [&](Style style, const std::string& bytes) {
    words.styles[static_cast<std::size_t>(style)] = bytes;
  };
  set(Style::kBold, capability("bold"));
  set(Style::kDim, capability("dim"));
  if (!color || theme == "mono") return;
  const std::string paint = capability("setaf");
  set(Style::kRed, filled(paint, COLOR_RED));
  set(Style::kYellow, filled(paint, is_light ? COLOR_MAGENTA : COLOR_YELLOW));
  set(Style::kGreen, filled(paint, is_light ? COLOR_BLUE : COLOR_GREEN));
  set(Style::kCyan, filled(paint, is_light ? COLOR_BLUE : COLOR_CYAN));
}

TerminalWords terminal_words() {
  TerminalWords words;
  words.move = mover();
  words.clear = capability("clear");
  words.clear_line = capability("el");
  words.plain = capability("sgr0");
  words.is_utf8 = std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
  words.scrolls_at_the_end = ::tigetflag("am") > 0 && ::tigetflag("xenl") <= 0;
  return words;
}

bool write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
      continue;
    }
    pollfd wait{STDOUT_FILENO, POLLOUT, 0};
    if (errno != EINTR && (errno != EAGAIN || ::poll(&wait, 1, 1000) <= 0)) return false;
  }
  return true;
}

/// Converts a mouse event: the wheel moves up and down in the list, and the left button is a click.
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
  if (screen == nullptr)
    return no_terminal(text("this machine does not know the terminal type in TERM"));
  ::set_term(screen);
  ::cbreak();
  ::noecho();
  ::nonl();
  ::keypad(stdscr, true);
  ::nodelay(stdscr, true);
  ::set_escdelay(50);
  ::mouseinterval(0);  // report a press immediately, without waiting for a double click
  if (mouse)
    ::mousemask(BUTTON1_PRESSED | BUTTON1_CLICKED | BUTTON4_PRESSED | BUTTON5_PRESSED, nullptr);
  ::curs_set(0);
  ::wrefresh(stdscr);  // sends the sequences that prepare the terminal; later, only Painter draws
  TerminalWords words = terminal_words();
  if (!words.move) {
    ::endwin();
    ::delscreen(screen);
    return no_terminal(text("this machine does not know the terminal type in TERM"));
  }
  const bool has_color = color && ::has_colors();
  set_styles("", has_color, words);
  struct sigaction act = {};
  act.sa_handler = note_end;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &act, nullptr);
  act.sa_handler = note_stop;
  ::sigaction(SIGTSTP, &act, nullptr);
  act.sa_handler = note_return;
  ::sigaction(SIGCONT, &act, nullptr);
  return std::unique_ptr<Screen>(new Screen(screen, has_color, std::move(words)));
}

Screen::Screen(void* screen, bool color, TerminalWords words)
    : screen_(screen), color_(color), words_(std::move(words)) {}

Screen::~Screen() {
  // If the terminal has no alternate screen, move the cursor to the last line. ncurses would use
  // the wrong size.
  if (capability("rmcup").empty()) write_all(words_.move(size().height - 1, 0));
  ::endwin();
  ::delscreen(static_cast<SCREEN*>(screen_));
}

void Screen::paint(const std::string& theme) {
  if (theme == theme_) return;
  theme_ = theme;
  is_whole_ = true;
  set_styles(theme, color_, words_);
}

PictureSize Screen::size() const {
  winsize now = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &now) == 0 && now.ws_col > 0 && now.ws_row > 0)
    return {now.ws_col, now.ws_row};
  const int columns = ::tigetnum("cols"), lines = ::tigetnum("lines");
  return {columns > 0 ? columns : 80, lines > 0 ? lines : 24};
}

void Screen::show(std::vector<Line> lines) {
  const PictureSize now = size();
  const bool is_new = std::exchange(is_whole_, false) || now != shown_size_ || returned != 0;
  returned = 0;
  const std::string bytes = top::paint(words_, is_new ? nullptr : &shown_, lines, now);
  if (!write_all(bytes)) is_over_ = true;
  shown_ = std::move(lines);
  shown_size_ = now;
}

bool Screen::is_over() const {
  return is_over_ || ended_by != 0;
}

/// Stops this process, as Ctrl-Z would. Without a shell, as in `ssh -t HOST berth top`, the kernel
/// does not stop it, and raise() just returns.
void Screen::stop() {
  stop_asked = 0;
  ::endwin();
  struct sigaction usual = {}, ours = {};
  usual.sa_handler = SIG_DFL;
  ::sigaction(SIGTSTP, &usual, &ours);
  ::raise(SIGTSTP);
  ::sigaction(SIGTSTP, &ours, nullptr);
  ::wrefresh(stdscr);
  is_whole_ = true;
}

std::vector<Pressed> Screen::wait(int also) {
  std::vector<Pressed> pressed;
  std::array<pollfd, 2> wanted = {{{STDIN_FILENO, POLLIN, 0}, {also, POLLIN, 0}}};
  if (is_over()) return pressed;
  const int ready = ::poll(wanted.data(), wanted.size(), -1);
  if (ready < 0 && errno != EINTR) is_over_ = true;
  if (stop_asked != 0) stop();
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
