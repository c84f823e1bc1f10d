"""A websocket client on a plain socket, from Python's standard library alone (RFC 6455)."""
import base64
import json
import os
import socket
import struct


class Refused(Exception):
    """The server did not upgrade the connection; `status` is its HTTP status."""

    def __init__(self, status, head):
        super().__init__(head.splitlines()[0] if head else "closed")
        self.status = status


class WebSocket:
    """Texts both ways. A close frame by the other side raises ConnectionError; `closed` is its
    status code."""

    def __init__(self, host, port, path="/", headers=(), timeout_s=60):
        self.closed = None
        self.buffer = b""
        self.sock = socket.create_connection((host, port), timeout=timeout_s)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {path} HTTP/1.1", "Upgrade: websocket", "Connection: Upgrade",
                 f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
        given = {name.lower() for name, _ in headers}
        if "host" not in given:
            lines.append(f"Host: {host}:{port}")
        lines += [f"{name}: {value}" for name, value in headers]
        self.sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        head = self._until(b"\r\n\r\n").decode("latin-1")
        status = int(head.split()[1]) if head else 0
        if status != 101:
            self.sock.close()
            raise Refused(status, head)

    def _fill(self):
        data = self.sock.recv(1 << 16)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.buffer += data

    def _until(self, end):
        while end not in self.buffer:
            try:
                self._fill()
            except (ConnectionError, OSError):
                return b""
        head, self.buffer = self.buffer.split(end, 1)
        return head

    def _take(self, n):
        while len(self.buffer) < n:
            self._fill()
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def send(self, text):
        self.send_frame(0x81, text.encode() if isinstance(text, str) else text)

    def send_frame(self, first, payload):
        """first: the byte with the opcode and FIN."""
        n = len(payload)
        head = bytes([first]) + (bytes([0x80 | n]) if n < 126 else
                                 bytes([0x80 | 126]) + struct.pack(">H", n) if n < 1 << 16 else
                                 bytes([0x80 | 127]) + struct.pack(">Q", n))
        self.sock.sendall(head + b"\0\0\0\0" + payload)  # masked by zeros

    def receive(self):
        """The next whole text."""
        text = b""
        while True:
            first, second = self._take(2)
            n = second & 0x7f
            if n == 126:
                n, = struct.unpack(">H", self._take(2))
            elif n == 127:
                n, = struct.unpack(">Q", self._take(8))
            payload = self._take(n)
            opcode = first & 0xf
            if opcode == 8:
                self.closed = struct.unpack(">H", payload[:2])[0] if len(payload) > 1 else 0
                raise ConnectionError(f"closed with status {self.closed}")
            if opcode == 9:
                self.send_frame(0x8a, payload)
            elif opcode in (0, 1, 2):
                text += payload
                if first & 0x80:
                    return text.decode()

    def receive_json(self):
        return json.loads(self.receive())

    def close(self):
        self.sock.close()
