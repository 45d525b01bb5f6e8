"""An HTTP server that only sends the same bytes, as an anchor for scrapes: what they cost on this machine at this moment, without an exporter.

usage: bare_server.py PORT KIB
"""
import socket
import sys

server = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=64)
body = b"x" * (int(sys.argv[2]) << 10)
answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body
while True:
    with server.accept()[0] as caller:
        caller.recv(65536)
        caller.sendall(answer)
