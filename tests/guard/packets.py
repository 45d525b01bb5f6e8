"""Reads the counters of a trace in Perfetto's format: (owner, counter) -> [(nanoseconds, value)]."""
import struct


def fields(message):
    """(number, value) of a protobuf message: numbers as int, messages and texts as bytes, doubles as float."""
    at = 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            yield number, varint()
        elif kind == 1:
            yield number, struct.unpack("<d", message[at:at + 8])[0]
            at += 8
        else:
            assert kind == 2, kind
            size = varint()
            yield number, message[at:at + size]
            at += size


def counters(path):
    with open(path, "rb") as file:
        trace = file.read()
    names, parents, found = {}, {}, {}
    for number, packet in fields(trace):
        assert number == 1, number
        packet = dict(fields(packet))
        if 60 in packet:
            track = dict(fields(packet[60]))
            names[track[1]] = dict(fields(track[3]))[6].decode() if 3 in track else track[2].decode()
            parents[track[1]] = track.get(5)
            continue
        event = dict(fields(packet[11]))
        assert event[9] == 4, event  # TYPE_COUNTER
        track = event[11]
        found.setdefault((names[parents[track]], names[track]), []).append((packet[8], event.get(30, event.get(44))))
    return found
