"""The HTTP application of one engine."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, FastAPI

from runtime.core.entrypoints.server import chat, completions, models
from runtime.core.entrypoints.server.anthropic import messages
from runtime.core.entrypoints.server.body_limit import BodyLimit
from runtime.core.entrypoints.server.context import ServerContext
from runtime.core.entrypoints.server.errors import add_error_handlers
from runtime.core.version import own_version


def build_app(context: ServerContext, routers: Sequence[APIRouter] = ()) -> FastAPI:
    """All routes over one engine; ``routers`` are a plugin's own."""
    app = FastAPI(
        title="runtime",
        summary="An OpenAI-compatible server of one language model.",
        version=own_version(),
        # Pages that load scripts from elsewhere are of no use where there is no internet.
        docs_url=None,
        redoc_url=None,
    )
    app.state.context = context
    add_error_handlers(app)
    app.add_middleware(BodyLimit, limit=context.args.max_request_bytes)
    for router in (*_own_routers(), *routers):
        app.include_router(router)
    return app


def _own_routers() -> list[APIRouter]:
    return [completions.router, chat.router, messages.router, models.router]
