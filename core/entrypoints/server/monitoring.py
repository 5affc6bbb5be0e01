"""Routes for whoever watches over the server: health, version, load."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import PlainTextResponse

from runtime.core.entrypoints.server.context import ServerContext, context_of
from runtime.core.entrypoints.server.errors import ApiError
from runtime.core.entrypoints.server.traffic import ServingState
from runtime.core.version import own_version

router = APIRouter(tags=["Monitoring"])

Context = Annotated[ServerContext, Depends(context_of)]


@router.get("/health", response_class=Response)
@router.get("/ping", response_class=Response)
@router.post("/ping", response_class=Response)
async def health(context: Context) -> Response:
    """Status 200 while requests can be served, else 503 with the reason."""
    context.engine.check_health()
    if context.traffic.state is not ServingState.SERVING:
        raise ApiError(503, "the server is shutting down")
    return Response(status_code=200)


@router.get("/version")
async def version() -> dict[str, str]:
    """The version of this server."""
    return {"version": own_version()}


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(context: Context, request: Request) -> Response:
    """Series for Prometheus."""
    text, content_type = await context.metrics.expose(request.headers.get("accept", ""))
    return Response(text, media_type=content_type)


@router.get("/load")
async def load(context: Context) -> dict[str, int]:
    """How many requests for the model are in flight."""
    return {"server_load": context.traffic.in_flight}
