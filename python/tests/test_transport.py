"""Connections: kept, lost, refused, of every kind."""

import os
import pickle
import socket
import subprocess
import threading
import time

import pytest

import coordinate
from coordinate.http1 import Malformed, Response
from conftest import CLI, open_daemon

pytestmark = pytest.mark.one_backend


def test_a_unix_socket(daemon, namespace_name):
    with coordinate.connect("unix:" + daemon.socket) as client:
        client.namespace(namespace_name).set_work_spec({"name": "spec"})
        assert [spec.name for spec in client.namespace(namespace_name).work_specs()] == ["spec"]


def test_connections_are_kept(daemon):
    opened = []
    client = coordinate.connect(daemon.url)
    [transport] = client._scope.protocol._transports
    connect = transport._connect

    async def counted(*args):
        opened.append(1)
        return await connect(*args)

    transport._connect = counted
    for _ in range(20):
        client.namespaces()
    assert len(opened) == 1
    threads = [threading.Thread(target=lambda: [client.tally() for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) <= 4
    client.close()
    with pytest.raises(coordinate.Closed):
        client.tally()


def test_a_fork_does_not_share_connections(daemon):
    client = coordinate.connect(daemon.url)
    client.tally()
    child = os.fork()
    if child == 0:
        try:
            client.tally()
            os._exit(0)
        except BaseException:
            os._exit(1)
    client.tally()
    assert os.waitpid(child, 0)[1] == 0
    client.tally()


def test_bad_addresses():
    for address in ("", "nonsense", "ftp://x", "unix:", "http://", "http://host:port"):
        with pytest.raises(coordinate.BadArgument, match="address"):
            coordinate.connect([address])
    with pytest.raises(coordinate.BadArgument):
        coordinate.connect([])


def test_nobody_there():
    with pytest.raises(coordinate.Unavailable, match="refused"):
        coordinate.connect("http://127.0.0.1:9", retries=1, backoff=0.01).tally()


def test_the_next_address(daemon):
    client = coordinate.connect(["http://127.0.0.1:9", daemon.url], backoff=0.01)
    assert isinstance(client.tally(), list)


class Proxy:
    """Hands requests on to the daemon, and loses the answers that it is told to lose."""

    def __init__(self, daemon):
        self.target = daemon.http.split(":")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.lose = 0
        #: What the next requests are answered with, instead of being handed on.
        self.instead = []
        self.requests = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        server = socket.create_connection((self.target[0], int(self.target[1])))
        with connection, server:
            while True:
                request = connection.recv(1 << 20)
                if not request:
                    return
                self.requests.append(request)
                if self.instead:
                    connection.sendall(self.instead.pop(0))
                    continue
                server.sendall(request)
                answer = server.recv(1 << 20)
                if self.lose > 0:
                    self.lose -= 1
                    return
                connection.sendall(answer)


@pytest.fixture
def proxy(daemon):
    proxy = Proxy(daemon)
    yield proxy
    proxy.listener.close()


def test_a_lost_answer_loses_nothing(proxy, namespace_name):
    ns = coordinate.connect(proxy.url).namespace(namespace_name)
    spec = ns.set_work_spec({"name": "spec"})
    proxy.lose = 1
    assert spec.add_work_units(["a", "b", "c"]).created == 3  # the repeated request is told what the first was
    proxy.lose = 1
    [first] = ns.worker("w").request_attempts(number=1)
    assert first.work_unit_name == "a"
    assert spec.counts()["pending"] == 1  # and not two, of which one would wait for its lease to end
    proxy.lose = 1
    first.finish({"n": 1})
    assert spec.work_unit("a").data == {"n": 1}


def test_what_may_not_be_repeated_is_an_unknown_outcome(proxy, namespace_name):
    ns = coordinate.connect(proxy.url).namespace(namespace_name)
    spec = ns.set_work_spec({"name": "spec"})
    spec.add_work_units(["a"])
    proxy.lose = 1
    with pytest.raises(coordinate.UnknownOutcome):
        spec.adjust_priorities(1, all=True)
    assert spec.work_unit("a").priority == 1


def page(status):
    """What a proxy answers by itself."""
    text = b"<html>%d</html>" % status
    return b"HTTP/1.1 %d Other\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n%s" % (status, len(text), text)


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_whose_server_restarts(proxy, namespace_name, status):
    ns = coordinate.connect(proxy.url, backoff=0.001).namespace(namespace_name)
    proxy.instead = [page(status)] * 2
    spec = ns.set_work_spec({"name": "spec"})
    proxy.instead = [page(status)] * 2
    assert spec.add_work_units(["a"]).created == 1
    proxy.instead = [page(status)]
    with pytest.raises(coordinate.UnknownOutcome, match="HTTP status %d" % status):
        spec.adjust_priorities(1, all=True)
    proxy.instead = [page(status)] * 5
    with pytest.raises(coordinate.Unavailable, match="HTTP status %d" % status):
        spec.counts()
    assert proxy.instead == []


def test_a_proxy_that_allows_less(proxy, namespace_name):
    ns = coordinate.connect(proxy.url).namespace(namespace_name)
    proxy.instead = [page(413)]
    with pytest.raises(coordinate.TooLarge, match="413"):
        ns.set_work_spec({"name": "spec"})


def test_an_answer_that_is_no_json(proxy):
    proxy.instead = [page(200)]
    with pytest.raises(coordinate.CoordinateError) as caught:
        coordinate.connect(proxy.url).tally()
    assert caught.value.code == "not_coordinate"


def test_a_server_that_does_not_answer():
    silent = socket.create_server(("127.0.0.1", 0))
    client = coordinate.connect("http://127.0.0.1:%d" % silent.getsockname()[1], timeout=0.2, retries=0)
    with pytest.raises(coordinate.Unavailable, match="no answer for 0.2 s"):
        client.tally()
    silent.close()


def test_a_server_that_is_something_else():
    other = socket.create_server(("127.0.0.1", 0))

    def serve():
        for reply in (b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnope"):
            connection, _ = other.accept()
            connection.recv(65536)
            connection.sendall(reply)
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    client = coordinate.connect("http://127.0.0.1:%d" % other.getsockname()[1], retries=0)
    with pytest.raises(coordinate.Unavailable, match="not an HTTP/1.1 response"):
        client.tally()
    with pytest.raises(coordinate.CoordinateError, match="HTTP status 404") as caught:
        client.tally()
    assert caught.value.code == "not_coordinate"
    other.close()


def test_tokens_and_tls(tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        + ["-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=localhost"]
        + ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"],
        capture_output=True,
    )
    assert made.returncode == 0, made.stderr
    running = open_daemon("sqlite", "--tls-cert", str(certificate), "--tls-key", str(key))
    try:
        url = running.url.replace("http:", "https:")
        client = coordinate.connect(url, ca=str(certificate))
        client.namespace("ns").set_work_spec({"name": "spec"})
        assert client.tally() == client.namespace("ns").tally()
        with pytest.raises(coordinate.Unavailable, match="certificate|CERTIFICATE"):
            coordinate.connect(url, retries=0).tally()
        secret = subprocess.run(
            CLI + "token create --name reader --scope read --namespace ns --data-dir".split() + [running.directory],
            capture_output=True,
            text=True,
        )
        assert secret.returncode == 0, secret.stderr
        word = [word for word in secret.stdout.split() if len(word) > 20][0]
        with pytest.raises(coordinate.Unauthorized) as caught:
            for _ in range(100):
                client.tally()
                time.sleep(0.1)
        assert caught.value.status == 401
        reader = coordinate.connect(url, word, ca=str(certificate))
        assert [row.work_spec for row in reader.namespace("ns").tally()] == ["spec"]
        with pytest.raises(coordinate.Forbidden):
            reader.namespace("ns").set_work_spec({"name": "other"})
    finally:
        running.stop()


def test_errors_can_be_sent_to_another_process():
    error = coordinate.errors.error_of("no_such_work_unit", "u", "No such work unit u", 404)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is coordinate.NoSuchWorkUnit and (again.value, again.message) == ("u", "No such work unit u")
    strange = pickle.loads(pickle.dumps(coordinate.errors.error_of("new_code", "v", "New", 418)))
    assert (type(strange), strange.code, strange.status) == (coordinate.CoordinateError, "new_code", 418)


# ---- the reader of HTTP


WHOLE = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: 1\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.0 200 OK\r\n\r\nhello"


@pytest.mark.parametrize("raw", [WHOLE, CHUNKED, UNTIL_CLOSE])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_response_in_pieces(raw, size):
    response = Response()
    body = b""
    for start in range(0, len(raw), size):
        response.feed(raw[start : start + size])
        body += response.take()
    if raw is UNTIL_CLOSE:
        assert not response.done
        response.feed(b"")
    assert response.done and response.status == 200 and body == b"hello"
    assert response.keep_alive == (raw is not UNTIL_CLOSE)


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"x" * 70000,
    ],
)
def test_a_response_that_is_none(raw):
    with pytest.raises(Malformed):
        Response().feed(raw)


@pytest.mark.parametrize("raw", [WHOLE[:-1], CHUNKED[:-1], b"HTTP/1.1 200"])
def test_a_response_that_ends_too_early(raw):
    response = Response()
    response.feed(raw)
    with pytest.raises(Malformed, match="ended in the middle"):
        response.feed(b"")
