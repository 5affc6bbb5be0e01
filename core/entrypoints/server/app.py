"""The HTTP application of one engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fastapi import APIRouter, FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from runtime.core.entrypoints.server import chat, completions, embeddings, models, monitoring, page
from runtime.core.entrypoints.server.anthropic import messages
from runtime.core.entrypoints.server.api_keys import ApiKeys, api_keys
from runtime.core.entrypoints.server.body_limit import BodyLimit
from runtime.core.entrypoints.server.context import ServerContext
from runtime.core.entrypoints.server.errors import add_error_handlers
from runtime.core.entrypoints.server.request_ids import RequestIds
from runtime.core.entrypoints.server.traffic import Gate
from runtime.core.version import own_version
from runtime.plugins.server_extension import ServerExtension


def build_app(context: ServerContext, extensions: Sequence[ServerExtension] = ()) -> FastAPI:
    """All routes over one engine, and what plugins add; their stat loggers are the caller's."""
    app = FastAPI(
        title="runtime",
        summary="An OpenAI-compatible server of one language model.",
        version=own_version(),
        # Pages that load scripts from elsewhere are of no use where there is no internet.
        docs_url=None,
        redoc_url=None,
        root_path=context.args.root_path.rstrip("/"),
    )
    app.state.context = context
    add_error_handlers(app)
    _add_middleware(app, context, [make for one in extensions for make in one.middleware])
    for router in (*_own_routers(), *(router for one in extensions for router in one.routers)):
        app.include_router(router)
    return app


def _add_middleware(
    app: FastAPI, context: ServerContext, of_plugins: Sequence[Callable[[ASGIApp], ASGIApp]]
) -> None:
    """From the innermost, next to the routes, to the outermost."""
    args = context.args
    app.add_middleware(BodyLimit, limit=args.max_request_bytes)
    for make in reversed(of_plugins):
        app.add_middleware(make)
    app.add_middleware(Gate, traffic=context.traffic)
    keys = api_keys(args.api_key)
    if keys:
        app.add_middleware(ApiKeys, keys=keys)
    app.add_middleware(
        CORSMiddleware,
        allow_origins=args.allowed_origins,
        allow_methods=args.allowed_methods,
        allow_headers=args.allowed_headers,
        allow_credentials=args.allow_credentials,
    )
    app.add_middleware(RequestIds, answer=args.enable_request_id_headers)


def _own_routers() -> list[APIRouter]:
    own = (completions, chat, embeddings, messages, models, monitoring, page)
    return [module.router for module in own]
