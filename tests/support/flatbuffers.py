"""Arrow streams made by hand, part by part, as no writer would make them: a part may be pointed to from many places."""

import struct

MARKER = b"\xff\xff\xff\xff"
END = MARKER + bytes(4)
DOUBLE, NULL, TIME, UNION = 3, 1, 10, 14


class Node:
    """A part of a flatbuffer. One part may be pointed to from many places."""

    def __init__(self, children=()):
        self.children = list(children)
        self.at = 0


class Bytes(Node):
    """A text, or a vector of numbers or structs, of `count` elements."""

    def __init__(self, data, count=None):
        super().__init__()
        self.data, self.count = data, len(data) if count is None else count

    def written(self):
        """Return its length, it, and a zero."""
        return struct.pack("<I", self.count) + self.data + b"\0"


class Vector(Node):
    """A vector of tables."""

    def written(self):
        """Return its length and how far ahead each table is."""
        places = [child.at - (self.at + 4 + 4 * index) & 0xFFFFFFFF for index, child in enumerate(self.children)]
        return struct.pack(f"<I{len(places)}I", len(places), *places)


class Table(Node):
    """A table; a slot's value is another part, or an integer of 8 bytes, which serves for shorter ones too."""

    def __init__(self, **slots):
        self.slots = {int(name[1:]): value for name, value in slots.items()}
        super().__init__(value for value in self.slots.values() if isinstance(value, Node))

    def written(self):
        """Return the table of 8 bytes a slot, its vtable behind it."""
        width = 1 + max(self.slots, default=-1)
        size = 8 + 8 * width
        data = struct.pack("<ii", -size, 0)
        for slot in range(width):
            value = self.slots.get(slot, 0)
            place = self.at + len(data)
            data += struct.pack("<q", value.at - place if isinstance(value, Node) else value)
        offsets = [8 + 8 * slot if slot in self.slots else 0 for slot in range(width)]
        return data + struct.pack(f"<{2 + width}H", 4 + 2 * width, size, *offsets)


def flat(root):
    """Lay out a graph of parts, each behind all that point to it."""
    order, seen = [], set()
    stack = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack += [(child, False) for child in node.children]
    order.reverse()
    end = 8
    for node in order:
        node.at = end
        end += len(node.written()) + 7 & -8
    return struct.pack("<q", root.at) + b"".join(
        node.written().ljust(len(node.written()) + 7 & -8, b"\0") for node in order
    )


def frame(kind, header, body=b"", **slots):
    """Return a frame of any kind."""
    data = flat(Table(_0=4, _1=kind, _2=header, _3=len(body), **slots))
    return MARKER + struct.pack("<I", len(data)) + data + body


def field(name=b"", kind=DOUBLE, **slots):
    """Return a field; slots of its own come last."""
    detail = slots.pop("_3", None) or (Table(_0=2) if kind == DOUBLE else Table())
    return Table(
        _0=name if isinstance(name, Node) else Bytes(name),
        _1=1,
        _2=kind,
        _3=detail,
        _5=slots.pop("_5", Vector()),
        **slots,
    )


def schema(*fields, **slots):
    """Return the frame that begins a stream."""
    return frame(1, Table(_1=Vector(fields), **slots))


def batch(rows, nodes, buffers, body=b"", *, own=None, **slots):
    """Return the frame of a record batch; nodes and buffers are pairs of numbers; `own` is the message's metadata."""
    return frame(3, _columns(rows, nodes, buffers, **slots), body, **({} if own is None else {"_4": own}))


def dictionary(number, rows, nodes, buffers, *, delta=0):
    """Return the frame of a dictionary of nothing, as `batch`."""
    return frame(2, Table(_0=number, _1=_columns(rows, nodes, buffers), _2=delta))


def _columns(rows, nodes, buffers, **slots):
    parts = [Bytes(b"".join(struct.pack("<qq", *pair) for pair in pairs), len(pairs)) for pairs in (nodes, buffers)]
    return Table(_0=rows, _1=parts[0], _2=parts[1], **slots)
