"""OpenTelemetry spans of one request through ingress, decode, prefill and the transfer between them.

On when an OTLP endpoint is set, by the standard variables: OTEL_EXPORTER_OTLP_ENDPOINT or
OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, ..._PROTOCOL, OTEL_TRACES_SAMPLER, OTEL_RESOURCE_ATTRIBUTES, OTEL_SDK_DISABLED.
The context travels in the request's `traceparent` header (https://www.w3.org/TR/trace-context/), which Ray carries to
the replicas and vLLM to its engine. The tracer is not made the process's global one: vLLM sets that.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping
from typing import Any

HEADER = "traceparent"


def endpoint(environ: Mapping[str, str] = os.environ) -> str | None:
    """Where spans go, as the exporters want it (vLLM's, too); None when tracing is off."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    own = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    if own:
        return own
    base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    if base and protocol(environ) == "http/protobuf":
        return base.rstrip("/") + "/v1/traces"
    return base or None


def protocol(environ: Mapping[str, str] = os.environ) -> str:
    """`grpc` or `http/protobuf`."""
    return environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "grpc"


@functools.cache
def tracer() -> Any:
    """This process's tracer, None when tracing is off or OpenTelemetry is not installed."""
    target = endpoint()
    if target is None:
        return None
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        return None
    os.environ.setdefault("OTEL_SERVICE_NAME", "serve_app")
    provider = TracerProvider(resource=Resource.create())
    provider.add_span_processor(BatchSpanProcessor(_exporter(target)))
    return provider.get_tracer("serve_app")


def _exporter(target: str) -> Any:
    if protocol() == "http/protobuf":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http

        return Http(endpoint=target)
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc

    # A bare host:port is a plain connection, as vLLM takes it; https:// says otherwise.
    return Grpc(endpoint=target, insecure=not target.startswith("https://"))


class Span:
    """A span, or nothing where tracing is off. parent: the traceparent it came with."""

    def __init__(self, span: Any, parent: str | None) -> None:
        self._span = span
        self._parent = parent

    @property
    def trace_id(self) -> str | None:
        """In hexadecimal, for the log line; that of the caller's trace where this process makes no spans."""
        if self._span is not None:
            return format(self._span.get_span_context().trace_id, "032x")
        parts = (self._parent or "").split("-")
        return parts[1] if len(parts) == 4 else None

    def headers(self) -> dict[str, str]:
        """What the next process needs to go on from here."""
        if self._span is None:
            return {HEADER: self._parent} if self._parent else {}
        context = self._span.get_span_context()
        return {HEADER: f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"}

    def set(self, **attributes: Any) -> None:
        """Attributes; None values are left out."""
        if self._span is not None:
            self._span.set_attributes({name: value for name, value in attributes.items() if value is not None})

    def done(self, record: Any) -> None:
        """What the ingress knows of the request, when it has ended."""
        if self._span is None:
            return
        self.set(**{
            "http.request.method": record.method, "http.response.status_code": record.status,
            "gen_ai.request.model": record.model, "serve_app.request_id": record.request_id,
            "gen_ai.usage.input_tokens": record.used("prompt_tokens"),
            "gen_ai.usage.output_tokens": record.used("completion_tokens"),
            **{f"serve_app.{name}": value for name, value in record.facts.items()},
        })  # fmt: skip
        if record.status >= 500:
            self.failed()

    def failed(self, error: BaseException | None = None) -> None:
        """Marks the span as an error."""
        if self._span is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_status(Status(StatusCode.ERROR, type(error).__name__ if error else None))


@contextlib.contextmanager
def server(name: str, parent: bytes | None) -> Iterator[Span]:
    """A span around an HTTP request."""
    with span(name, None if parent is None else parent.decode("latin-1"), "SERVER") as found:
        yield found


@contextlib.contextmanager
def span(name: str, parent: str | None, kind: str = "INTERNAL", **attributes: Any) -> Iterator[Span]:
    """A span with `parent`, a traceparent header, above it."""
    made = tracer()
    if made is None:
        yield Span(None, parent)
        return
    from opentelemetry.trace import SpanKind

    inner = made.start_span(name, context=_context(parent), kind=SpanKind[kind], attributes=attributes)
    try:
        yield Span(inner, parent)
    except BaseException as error:
        if not isinstance(error, GeneratorExit):
            Span(inner, parent).failed(error)
        raise
    finally:
        inner.end()


def past(name: str, parent: Mapping[str, str] | None, start_ns: int, end_ns: int, **attributes: Any) -> None:
    """A span of something that is over. Times: nanoseconds since the epoch."""
    made = tracer()
    if made is None or not parent:
        return
    made.start_span(name, context=_context(parent.get(HEADER)), start_time=start_ns,
                    attributes=attributes).end(end_ns)  # fmt: skip


def _context(parent: str | None) -> Any:
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    # An own empty context, never the thread's: another request's span may be current there.
    return TraceContextTextMapPropagator().extract({HEADER: parent} if parent else {}, context=Context())
