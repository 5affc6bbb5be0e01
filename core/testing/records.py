"""What became of one case of the suite."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Result(StrEnum):
    """How a case ended."""

    PASS = "pass"
    FAIL = "fail"
    UNSUPPORTED = "unsupported"
    """The platform says that it does not do this, or it cannot be tried here; the reason says."""


@dataclass(frozen=True)
class Record:
    """One case and its result."""

    part: str
    """The suite's module: ``ops``, ``attention``, ``device``, ``engine``, ``collectives``."""
    title: str
    """What was tried, in words."""
    params: dict[str, str]
    """On what: ``{"op": "rms_norm", "provider": "native", "dtype": "float32"}``; may be empty."""
    result: Result
    reason: str = ""
    """Why it failed or is unsupported, in one line."""
    measured: dict[str, str] | None = None
    """What was measured: ``{"max error": "1.2e-07"}``."""

    @property
    def name(self) -> str:
        """The case in one line."""
        values = " ".join(self.params.values())
        return f"{self.part}: {self.title}: {values}" if values else f"{self.part}: {self.title}"

    def to_plain(self) -> dict[str, Any]:
        """Only dictionaries and strings, so that any test runner can send it between processes."""
        return {**asdict(self), "result": self.result.value}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Record:
        """The inverse of :meth:`to_plain`."""
        return cls(**{**plain, "result": Result(plain["result"])})
