#include "kubelet/socket_server.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include "base/text.hpp"

namespace berth::kubelet {

bool is_socket(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

Result<std::unique_ptr<grpc::Server>> serve_on(const std::string& path, grpc::Service& service) {
  ::unlink(path.c_str());
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  auto server = builder.BuildAndStart();
  if (!server || !is_socket(path))
    return Error{ErrorCode::kUnavailable, "E1034", text("cannot listen on {}", path),
                 "ls -ld " + path.substr(0, path.rfind('/'))};
  ::chmod(path.c_str(), 0600);
  return server;
}

void end_server(std::unique_ptr<grpc::Server>& server, const std::string& path) {
  if (!server) return;
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
  server->Wait();
  server.reset();
  ::unlink(path.c_str());
}

}  // namespace berth::kubelet
