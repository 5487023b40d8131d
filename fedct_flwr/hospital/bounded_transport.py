"""HTTP to the SuperNode whose answers end, and are in Flower's form: what listens there may be anything.

Errors are httpx' own where it is worth to ask again, and of this file where it is not.
"""

import time
from collections.abc import Iterator
from typing import Final

import httpx

_SECONDS: Final = 120.0
_BYTES: Final = 64 * 2**20


class TooLongError(httpx.HTTPError):
    """An answer was broken off. None of httpx' own, which Flower's client would ask for again."""


class OddError(httpx.HTTPError):
    """An answer that no SuperNode gives. None of httpx' own either."""


class BoundedTransport(httpx.BaseTransport):
    """Plain HTTP whose answers are of ``media_type``, and of at most so many bytes that take at most so many seconds.

    Raises OddError for another type, TooLongError while an answer without end is read.
    """

    def __init__(self, media_type: str) -> None:
        limits = httpx.Limits(max_connections=4, max_keepalive_connections=2)
        self._media_type = media_type
        self._inner = httpx.HTTPTransport(verify=False, trust_env=False, limits=limits)  # plain HTTP: nothing to verify

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The answer."""
        response = self._inner.handle_request(request)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code == httpx.codes.OK and kind != self._media_type:
            # An empty answer is a good one to protobuf, and anything that listens may give it.
            response.close()
            raise OddError("an answer in no form of Flower's")
        if "content-encoding" in response.headers:
            response.close()
            raise httpx.RemoteProtocolError("an encoded answer, which nobody asked for", request=request)
        return httpx.Response(
            response.status_code,
            headers=response.headers,
            stream=_BoundedStream(response),
            extensions=response.extensions,
        )

    def close(self) -> None:
        """Close all connections."""
        self._inner.close()


class _BoundedStream(httpx.SyncByteStream):
    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        size, end = 0, time.monotonic() + _SECONDS
        for chunk in self._response.iter_raw():
            size += len(chunk)
            if size > _BYTES or time.monotonic() > end:
                raise TooLongError("an answer without end")
            yield chunk

    def close(self) -> None:
        self._response.close()
