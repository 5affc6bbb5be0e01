"""Environment variables as they may be shown to others."""

from __future__ import annotations

import re

HIDDEN = "(hidden)"
_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
_USER_INFO = re.compile(r"(?<=://)[^/?#\s]*@")


def shown(name: str, value: str) -> str:
    """A variable's value: hidden where its name is a secret's, and without a URL's credentials."""
    return HIDDEN if _NAME.search(name) else _USER_INFO.sub(f"{HIDDEN}@", value)
