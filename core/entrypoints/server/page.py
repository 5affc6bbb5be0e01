"""``GET /``: a page for people, all in one file of ours."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources

from fastapi import APIRouter, Response

router = APIRouter(tags=["page"])


@router.get("/", include_in_schema=False)
async def page() -> Response:
    """The model, its metrics and a chat."""
    html, policy = content()
    headers = {
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
    }
    return Response(html, headers=headers, media_type="text/html; charset=utf-8")


@cache
def content() -> tuple[str, str]:
    """The page and its Content-Security-Policy: its own script and style, and this server alone."""
    html = resources.files(__package__).joinpath("index.html").read_text(encoding="utf-8")
    policy = (
        "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; "
        f"form-action 'none'; frame-ancestors 'none'; script-src {_hash_of(html, 'script')}; "
        f"style-src {_hash_of(html, 'style')}"
    )
    return html, policy


def _hash_of(html: str, tag: str) -> str:
    text = html.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
