// `berth function serve`: checks its arguments, opens the socket, and then executes the Python
// program that calls the function (function_server.py).
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>

#include "base/environment_variables.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/request_options.hpp"
#include "cli/verbs.hpp"
#include "output/json_writer.hpp"
#include "serve/tcp_address.hpp"

extern "C" const char berth_function_server[], berth_function_server_end[];

namespace berth::cli {
namespace {

constexpr int kMostWorkers = 64;
constexpr int kMostWaiting = 10000;
constexpr std::uint64_t kMostBody = std::uint64_t{1} << 30;
constexpr std::size_t kShortestToken = 16, kLongestToken = 4096;
constexpr const char* kExample = "berth function serve handler.py:predict";
constexpr const char* kListen = "127.0.0.1:8643";

Error wrong_words(std::string message, std::string hint = kExample) {
  return {ErrorCode::kInvalidArgument, "E0998", std::move(message), std::move(hint)};
}

Error cannot(std::string message, std::string hint) {
  return {ErrorCode::kUnavailable, "E0999", std::move(message), std::move(hint)};
}

struct Function {
  std::string path, name;
};

Result<Function> function_of(const std::string& word) {
  const auto colon = word.rfind(':');
  const std::string name = colon == std::string::npos ? "" : word.substr(colon + 1);
  const bool is_name = !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
                       std::ranges::all_of(name, [](unsigned char one) {
                         return std::isalnum(one) != 0 || one == '_';
                       });
  if (!is_name) return wrong_words(text("'{}' is not FILE:FUNCTION", printable(word)));
  std::error_code ignored;
  const std::string path =
      std::filesystem::absolute(word.substr(0, colon), ignored).lexically_normal().string();
  if (!std::filesystem::is_regular_file(path, ignored))
    return wrong_words(text("{}: there is no such file", printable(path)));
  return Function{path, name};
}

Result<int> count(const Arguments& given, const char* option, int usual, int least, int most) {
  const auto word = given.value(option);
  if (!word) return usual;
  const auto number = parse_integer(*word, least, most);
  if (!number)
    return wrong_words(
        text("{}: '{}' is not a number from {} to {}", option, printable(*word), least, most));
  return static_cast<int>(*number);
}

Result<double> seconds(const Arguments& given, const char* option) {
  const auto word = given.value(option);
  if (!word) return 60.0;
  const auto parsed = parse_duration(*word);
  if (!parsed || *parsed < std::chrono::milliseconds(100))
    return wrong_words(text("{}: '{}' is not a time of at least 100 ms", option, printable(*word)));
  return std::chrono::duration<double>(*parsed).count();
}

/// Checks that the file contains a token, and that only its user and group can read the file.
Status check_token(const std::string& file) {
  struct stat about {};
  if (::stat(file.c_str(), &about) != 0)
    return wrong_words(text("{}: {}", printable(file), error_words(errno)));
  if ((about.st_mode & S_IROTH) != 0)
    return wrong_words(text("{}: every user can read this token", printable(file)),
                       "chmod 600 " + shell_word(printable(file)));
  const auto said = read_file(file, kLongestToken);
  if (!said) return said.error();
  const auto length = static_cast<std::size_t>(
      std::ranges::count_if(*said, [](unsigned char one) { return std::isgraph(one) != 0; }));
  if (length < kShortestToken)
    return wrong_words(
        text("{}: a token has at least {} characters", printable(file), kShortestToken),
        "openssl rand -hex 16 > FILE");
  return Done{};
}

Result<int> listening(const std::string& address, bool has_token) {
  const auto endpoint = serve::endpoint_of(address);
  if (!endpoint)
    return wrong_words(text("--listen: '{}' is not ADDRESS:PORT", printable(address)),
                       "--listen 127.0.0.1:8643");
  if (!endpoint->address().is_loopback() && !has_token)
    return wrong_words(
        text("--listen: other machines can reach {}, so a token is required", address),
        "openssl rand -hex 16 > token; chmod 600 token\n--token-file token");
  const int socket = ::socket(endpoint->protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  if (socket < 0 || ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(socket, endpoint->data(), static_cast<socklen_t>(endpoint->size())) != 0 ||
      ::listen(socket, SOMAXCONN) != 0)
    return cannot(text("cannot listen on {}: {}", address, error_words(errno)),
                  "--listen 127.0.0.1:8644");
  return socket;
}

/// A file in memory that contains the Python program. The server and its workers read it as
/// /proc/self/fd/N.
Result<int> script() {
  const auto length = static_cast<std::size_t>(berth_function_server_end - berth_function_server);
  const int file = ::memfd_create("berth-function.py", 0);
  if (file < 0 || ::write(file, berth_function_server, length) != static_cast<ssize_t>(length))
    return cannot(text("the function server cannot be started: {}", error_words(errno)), "");
  return file;
}

/// The options for `berth run`, as the user gave them.
std::vector<std::string> request_words(const Arguments& given) {
  std::vector<std::string> words;
  for (const Option& option : kRequestOptions)
    for (const std::string& value : given.values(option.names)) {
      words.emplace_back(option.names);
      if (option.value != nullptr) words.push_back(value);
    }
  return words;
}

Result<int> become_server(const Context& context, const Function& function) {
  const Arguments& given = context.arguments;
  if (const auto request = parse_request(given, whole_environment()); !request)
    return request.error();
  const auto idle = seconds(given, "--idle");
  const auto timeout = seconds(given, "--timeout");
  const auto most = count(given, "--max", 1, 1, kMostWorkers);
  const auto queue = count(given, "--queue", 16, 0, kMostWaiting);
  if (!idle) return idle.error();
  if (!timeout) return timeout.error();
  if (!most) return most.error();
  if (!queue) return queue.error();
  const auto body = parse_size(given.value("--body").value_or("10MiB"));
  if (!body || *body > kMostBody)
    return wrong_words(
        text("--body: '{}' is not a size up to 1 GiB", printable(*given.value("--body"))));
  const std::string token = given.value("--token-file").value_or("");
  if (!token.empty())
    if (const auto checked = check_token(token); !checked) return checked.error();
  const std::string address = given.value("--listen").value_or(kListen);
  const auto socket = listening(address, !token.empty());
  if (!socket) return socket.error();
  const auto file = script();
  if (!file) return file.error();

  std::error_code ignored;
  const std::string shown =
      std::filesystem::path(function.path).filename().string() + ":" + function.name;
  nlohmann::json config;
  config["berth"] = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
  config["request"] = request_words(given);
  config["name"] = "function " + shown;
  config["path"] = function.path;
  config["function"] = function.name;
  config["idle"] = *idle;
  config["timeout"] = *timeout;
  config["max"] = *most;
  config["queue"] = *queue;
  config["body"] = *body;
  config["socket"] = *socket;
  config["script"] = *file;
  config["token"] = token;

  const std::string python = given.value("--python").value_or("python3");
  std::vector<std::string> words{
      python, "/proc/self/fd/" + std::to_string(*file), "serve",
      config.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  if (context.json) {
    output::JsonWriter json;
    json.open('{');
    json.field("schema", 1);
    json.field("url", "http://" + address + "/");
    json.field("function", shown);
    json.close('}');
    context.out(json.finish());
  } else {
    context.out(
        text("http://{}/ calls {}: at most {} at a time; a worker ends after {} s without a call\n",
             address, printable(shown), *most, *idle));
  }
  ::fcntl(*socket, F_SETFD, 0);
  ::execvp(python.c_str(), pointers.data());
  return cannot(text("{} cannot be started: {}", printable(python), error_words(errno)),
                "--python /usr/bin/python3");
}

}  // namespace

Result<int> run_function(const Context& context) {
  const auto& words = context.arguments.positional;
  if (words.size() != 2 || words[0] != "serve")
    return wrong_words(words.empty() ? text("no function was named: use serve FILE:FUNCTION")
                                     : text("the arguments must be serve FILE:FUNCTION, not '{}'",
                                            printable(words[0])));
  const auto function = function_of(words[1]);
  if (!function) return function.error();
  return become_server(context, *function);
}

}  // namespace berth::cli
