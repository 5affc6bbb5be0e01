"""Which route a request asks for, whatever a proxy in front adds."""

from __future__ import annotations

from starlette.types import Scope


def route_path(scope: Scope) -> str:
    """The path of a request, without ``--root-path`` where a proxy leaves that in."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root and path.startswith(f"{root}/"):
        return path[len(root) :]
    return path
