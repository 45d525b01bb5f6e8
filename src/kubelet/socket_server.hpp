// A gRPC server on a socket in one of the kubelet's folders.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "base/result.hpp"

namespace berth::kubelet {

[[nodiscard]] bool is_socket(const std::string& path);
/// Starts a server on this socket. Replaces an older socket file. Only the owner of the socket may
/// connect. Fails with kUnavailable (E1034).
[[nodiscard]] Result<std::unique_ptr<grpc::Server>> serve_on(const std::string& path,
                                                             grpc::Service& service);
/// Ends the server: calls in progress get half a second to finish, then the socket is removed. Does
/// nothing for nullptr.
void end_server(std::unique_ptr<grpc::Server>& server, const std::string& path);

}  // namespace berth::kubelet
