#!/usr/bin/env python3
"""The cluster's DNS for pods, which CoreDNS serves elsewhere: the addresses of headless Services, and of their pods by host name, from the
EndpointSlices of the API server. Runs in the node's namespaces.

usage: names.py ADDRESS CA_FILE TOKEN"""
import json
import socket
import ssl
import struct
import sys
import urllib.request

ADDRESS, AUTHORITY, TOKEN = sys.argv[1:]
TAIL = ".svc.cluster.local"


def known():
    """The IPv4 addresses by name."""
    request = urllib.request.Request("https://127.0.0.1/apis/discovery.k8s.io/v1/endpointslices", headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=5, context=ssl.create_default_context(cafile=AUTHORITY)) as answer:
        items = json.load(answer)["items"]
    names = {}
    for one in items:
        service = f"{one['metadata']['labels'].get('kubernetes.io/service-name', '')}.{one['metadata']['namespace']}{TAIL}"
        for end in one.get("endpoints") or ():
            for name in (service, f"{end['hostname']}.{service}" if end.get("hostname") else service):
                names.setdefault(name, set()).update(end["addresses"])
    return names


def reply(query):
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode())
        at += 1 + query[at]
    question, (kind,) = query[12:at + 5], struct.unpack("!H", query[at + 1:at + 3])
    found = known().get(".".join(labels).lower())
    addresses = sorted(found or ()) if kind == 1 else []
    head = query[:2] + struct.pack("!HHHHH", 0x8180 if found else 0x8183, 1, len(addresses), 0, 0)
    return head + question + b"".join(struct.pack("!HHHIH", 0xc00c, 1, 1, 1, 4) + socket.inet_aton(one) for one in addresses)


server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((ADDRESS, 53))
while True:
    words, client = server.recvfrom(2048)
    try:
        server.sendto(reply(words), client)
    except (OSError, ValueError, IndexError) as error:
        print(error, file=sys.stderr, flush=True)
