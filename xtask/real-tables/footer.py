"""The footer of a Parquet file, whatever types it holds: Thrift's compact protocol, and the few fields that are needed.

Fields stand by their numbers of parquet.thrift: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

import struct

STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)


class Compact:
    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self):
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def value(self, kind):
        if kind in (TRUE, FALSE):
            # In a list; a field has its value in its type.
            return self.byte() == TRUE
        if kind == BYTE:
            return self.byte()
        if kind in (I16, I32, I64):
            return self.signed()
        if kind == DOUBLE:
            self.at += 8
            return struct.unpack("<d", self.data[self.at - 8 : self.at])[0]
        if kind == BINARY:
            length = self.varint()
            self.at += length
            return self.data[self.at - length : self.at]
        if kind in (LIST, SET):
            head = self.byte()
            length = head >> 4 if head >> 4 != 15 else self.varint()
            return [self.value(head & 15) for _ in range(length)]
        if kind == STRUCT:
            return self.struct()
        raise ValueError(f"type {kind} in a footer")

    def struct(self):
        fields, number = {}, 0
        while head := self.byte():
            kind, step = head & 15, head >> 4
            number = number + step if step else self.signed()
            fields[number] = kind == TRUE if kind in (TRUE, FALSE) else self.value(kind)
        return fields


class Leaf:
    """A column that has values of its own."""

    def __init__(self, element, path, is_flat):
        self.path, self.is_flat = path, is_flat
        self.logical = next(iter(element.get(10, {})), None)


class Footer:
    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            self.data = file.read()
        length = int.from_bytes(self.data[-8:-4], "little")
        fields = Compact(self.data[-8 - length : -8]).struct()
        self.schema, self.groups = fields[2], fields[4]
        self.created_by, self.key_values = fields.get(6), fields.get(5, [])
        self.keys = {pair[1] for pair in self.key_values}
        self.leaves, at = [], 1
        while at < len(self.schema):
            at = self.walk(at, (), True)

    def walk(self, at, above, is_flat):
        element = self.schema[at]
        path, is_flat = (*above, element[4].decode()), is_flat and element.get(3) != 2
        if 1 in element:
            self.leaves.append(Leaf(element, path, is_flat and not above))
            return at + 1
        at += 1
        for _ in range(element.get(5, 0)):
            at = self.walk(at, path, False)
        return at

    def chunks(self, column):
        """The encoded bytes of a column, by row group."""
        found = []
        for group in self.groups:
            chunk = group[1][column][3]
            starts = [start for start in (chunk[9], chunk.get(11)) if start]
            found.append(self.data[min(starts) : min(starts) + chunk[7]])
        return found

    def encodings(self, column):
        return {encoding for group in self.groups for encoding in group[1][column][3][2]}
