"""The proxy from the environment, against a real one on loopback."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

import pytest

from steadyhand.errors import ModelError, SetupError
from steadyhand.http.proxy import Proxy, TunnelRefused, proxy_for
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.records.chat import ChatRequest, Message
from steadyhand.testing import Answer, ModelServer

TLS = Path(__file__).parent / "tls"
WAY = "http://proxy.example:3128"
ASKED = ChatRequest(messages=(Message(role="user", content="hi"),))


@pytest.mark.parametrize(
    ("url", "variables", "through"),
    [
        ("https://api.example/v1", {"HTTPS_PROXY": WAY}, True),
        ("https://api.example/v1", {"https_proxy": "proxy.example:3128"}, True),
        ("https://api.example/v1", {"HTTP_PROXY": WAY}, False),
        ("http://api.example/v1", {"HTTP_PROXY": WAY}, True),
        ("http://api.example/v1", {"HTTP_PROXY": WAY, "REQUEST_METHOD": "GET"}, False),
        ("http://api.example/v1", {"ALL_PROXY": WAY}, True),
        ("http://api.example/v1", {}, False),
        ("http://127.0.0.1:9/v1", {"ALL_PROXY": WAY}, False),
        ("http://localhost:9/v1", {"ALL_PROXY": WAY}, False),
        ("http://[::1]:9/v1", {"ALL_PROXY": WAY}, False),
        ("http://127.0.0.1:9/v1", {"ALL_PROXY": WAY, "STEADYHAND_PROXY_LOOPBACK": "1"}, True),
        ("https://api.example/v1", {"HTTPS_PROXY": WAY, "NO_PROXY": "other.example, .example"}, False),
        ("https://api.example/v1", {"HTTPS_PROXY": WAY, "NO_PROXY": "pi.example"}, True),
        ("https://api.example/v1", {"HTTPS_PROXY": WAY, "NO_PROXY": "*"}, False),
        ("https://api.example:8443/v1", {"HTTPS_PROXY": WAY, "NO_PROXY": "api.example:443"}, True),
        ("https://api.example:8443/v1", {"HTTPS_PROXY": WAY, "NO_PROXY": "api.example:8443"}, False),
        ("https://10.1.2.3/v1", {"HTTPS_PROXY": WAY, "NO_PROXY": "10.0.0.0/8"}, False),
    ],
)
def test_which_requests_go_through_the_proxy(url, variables, through):
    found = proxy_for(url, variables)
    assert (found is not None) is through
    assert found is None or found == Proxy(host="proxy.example", port=3128)


def test_a_user_in_its_url_is_sent_and_never_shown():
    found = proxy_for("https://api.example", {"HTTPS_PROXY": "http://me:p%40ss@proxy.example:1"})
    assert found is not None
    assert found.authorization == "Basic " + base64.b64encode(b"me:p@ss").decode()
    assert str(found) == "proxy.example:1"


@pytest.mark.parametrize("given", ["socks5://proxy.example:1", "http://proxy.example:nine"])
def test_a_proxy_that_cannot_be_used_is_named(given):
    with pytest.raises(SetupError, match="HTTPS_PROXY"):
        proxy_for("https://api.example", {"HTTPS_PROXY": given})


class Relay:
    """A proxy: passes requests on to one server, and opens tunnels to it if told to."""

    def __init__(self, port: int, *, refuses: bool = False) -> None:
        self._port = port
        self._refuses = refuses
        self.heads: list[str] = []
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head.decode())
        if self._refuses:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        onward, back = await asyncio.open_connection("127.0.0.1", self._port)
        if head.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            back.write(head)
        async with asyncio.TaskGroup() as group:
            group.create_task(_pump(reader, back))
            group.create_task(_pump(onward, writer))


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
    except ConnectionError:
        pass
    finally:
        sink.close()


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(Answer(text="Hello.")) as server:
        yield server


def _model(base_url: str):
    from steadyhand.builtin.models.openai import OpenAIModel

    options = {"base_url": base_url, "api_key_env": "K"}
    return OpenAIModel(ModelSettings(name="m", folder=None, variables={"K": "k"}, timeout_s=30.0, options=options))


async def test_a_plain_request_is_passed_on_and_marked(monkeypatch, server):
    async with Relay(server.port) as relay:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:pw@127.0.0.1:{relay.port}")
        monkeypatch.setenv("STEADYHAND_PROXY_LOOPBACK", "1")
        model = _model(server.base_url)
        response = await model.attempt(ASKED, zero=0.0)
        await model.close()
        assert response.text == "Hello."
        assert response.attempt.proxied
        assert relay.heads[0].startswith(f"POST {server.base_url}/chat/completions HTTP/1.1\r\n")
        assert "Proxy-Authorization: Basic " in relay.heads[0]
        monkeypatch.delenv("STEADYHAND_PROXY_LOOPBACK")
        straight = _model(server.base_url)
        assert not (await straight.attempt(ASKED, zero=0.0)).attempt.proxied
        await straight.close()


async def test_a_tunnel_leads_to_the_server(server):
    async with Relay(server.port) as relay:
        tunnel = await Proxy(host="127.0.0.1", port=relay.port).tunnel("api.example", 443)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(tunnel, b"GET /log HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await loop.sock_recv(tunnel, 100)).startswith(b"HTTP/1.1 200")
        tunnel.close()
        assert relay.heads == ["CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\n\r\n"]


async def test_tls_goes_through_the_tunnel_with_the_certificates_of_the_environment(monkeypatch):
    """`SSL_CERT_FILE` names the private authority."""
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "loopback.pem"))
    monkeypatch.setenv("STEADYHAND_PROXY_LOOPBACK", "1")
    said = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Safe."}, "finish_reason": "stop"}]}
    body = json.dumps(said).encode()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        await writer.drain()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "loopback.pem", TLS / "loopback.key")
    server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    async with Relay(port) as relay:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{relay.port}")
        model = _model(f"https://127.0.0.1:{port}/v1")
        response = await model.attempt(ASKED, zero=0.0)
        await model.close()
    server.close()
    assert (response.text, response.attempt.proxied) == ("Safe.", True)
    assert relay.heads[0].startswith(f"CONNECT 127.0.0.1:{port} HTTP/1.1")


async def test_a_proxy_that_refuses_is_an_error_that_says_so(monkeypatch, server):
    async with Relay(server.port, refuses=True) as relay:
        with pytest.raises(TunnelRefused, match=r"refused to connect to api\.example:443: HTTP/1\.1 407"):
            await Proxy(host="127.0.0.1", port=relay.port).tunnel("api.example", 443)
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{relay.port}")
        model = _model("https://api.example/v1")
        with pytest.raises(ModelError, match=r"the proxy 127\.0\.0\.1:.* refused to connect") as caught:
            await model.attempt(ASKED, zero=0.0)
        assert caught.value.kind == "connect"
        await model.close()
