"""The FastAPI application below the ingress.

Ray's own has CORS `*` with credentials, /docs, and str(exception) in its bodies; this one has none of these.
"""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from ray.llm._internal.serve.core.configs.openai_api_models import OpenAIHTTPException
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse

from serve_app.access.gate import Gate
from serve_app.access.settings import Endpoint
from serve_app.openai import errors
from serve_app.openai.errors import ApiError

try:
    from vllm.exceptions import VLLMClientError as Refusal
except ImportError:  # vLLM 0.26 (release 2.58) refuses with ValueErrors, which Ray answers with a 400 itself
    Refusal = None

logger = logging.getLogger("ray.serve")


def make(endpoint: Endpoint) -> FastAPI:
    """A new application behind a gate (access/gate.py), which gives each request its id."""
    docs = endpoint.docs
    app = FastAPI(
        title="serve_app",
        docs_url="/docs" if docs else None,
        redoc_url=None,
        openapi_url="/openapi.json" if docs else None,
    )
    app.add_exception_handler(ApiError, on_api_error)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(OpenAIHTTPException, on_ray)
    if Refusal is not None:
        app.add_exception_handler(Refusal, on_vllm)
    app.add_exception_handler(Exception, on_unexpected)
    app.add_middleware(Gate, endpoint=endpoint)
    if endpoint.cors_origins:  # the last one added is the outermost: refusals carry the headers, too
        app.add_middleware(
            CORSMiddleware, allow_origins=list(endpoint.cors_origins), allow_credentials=False,
            allow_methods=["GET", "POST"], allow_headers=["*"], expose_headers=["x-request-id", "retry-after"],
        )  # fmt: skip
    return app


def request_id(request: Request) -> str | None:
    """The id that came with the request, or that the gate gave it."""
    found: str | None = getattr(request.state, "request_id", None)
    return found


def respond(request: Request, error: ApiError) -> JSONResponse:
    """An error as a response."""
    record = getattr(request.state, "record", None)
    if record is not None:
        record.error = record.error or error.body()["error"]["code"]
    headers = dict(error.headers)
    if error.retry_after_s is not None:
        headers["retry-after"] = str(error.retry_after_s)
    return JSONResponse(error.body(request_id(request)), status_code=error.status, headers=headers)


async def on_api_error(request: Request, error: Any) -> JSONResponse:
    """Ours: ready to be answered."""
    return respond(request, error)


async def on_validation(request: Request, error: Any) -> JSONResponse:
    """A body that pydantic refuses."""
    return respond(request, errors.from_validation(error.errors()))


async def on_http(request: Request, error: Any) -> JSONResponse:
    """No such route or method, and what Ray's ingress raises for an unknown model."""
    status = error.status_code
    if status == 404 and "model" in str(error.detail):
        return respond(request, ApiError(404, errors.clean(str(error.detail)), code="model_not_found", param="model"))
    if status in (404, 405):
        path = request.url.path.removeprefix(request.scope.get("root_path", ""))
        return respond(request, ApiError(status, f"Unknown request: {request.method} {path}"))
    return respond(request, ApiError(status, errors.clean(str(error.detail)) if status < 500 else ""))


async def on_ray(request: Request, error: Any) -> JSONResponse:
    """What the engine refused, through Ray's ingress."""
    return respond(request, errors.from_engine(error.status_code, error.message))


async def on_vllm(request: Request, error: Any) -> JSONResponse:
    """A body that vLLM's request models refuse; their validators raise exceptions of their own."""
    return respond(request, errors.from_engine(400, str(error.args[0] if error.args else error), _parameter(error)))


def _parameter(error: Any) -> str | None:
    found = getattr(error, "parameter", None)
    return str(found) if found else None


async def on_unexpected(request: Request, error: Exception) -> JSONResponse:
    """Anything else: told to the log, not to the client."""
    logger.error("%s: unexpected error", request_id(request), exc_info=error)
    return respond(request, ApiError(500))
