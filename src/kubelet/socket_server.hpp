// A gRPC server on a socket in one of the kubelet's folders.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "base/result.hpp"

namespace berth::kubelet {

[[nodiscard]] bool is_socket(const std::string& path);
/// Serves on this socket, which replaces an older one; only its owner may connect. Fails with
/// kUnavailable (E1034).
[[nodiscard]] Result<std::unique_ptr<grpc::Server>> serve_on(const std::string& path,
                                                             grpc::Service& service);
/// Ends calls in progress after half a second, and removes the socket. Does nothing for nullptr.
void end_server(std::unique_ptr<grpc::Server>& server, const std::string& path);

}  // namespace berth::kubelet
