"""A backend that misbehaves as its constraint says: a file beside the tests, for the trial."""

import os
import sys
import time

from runtime.core.structured_output.interface import GrammarError, StructuredOutputBackend


class Anything:
    memory_bytes = 100
    ended = False

    def matcher(self):
        return self

    def accept(self, token_id):
        return True

    def fill(self, mask):
        mask[:] = -1


class HostileBackend(StructuredOutputBackend):
    """``text`` of the constraint is what happens."""

    name = "hostile"

    def compile(self, constraint):
        match constraint.text:
            case "hang":
                while True:
                    pass
            case "sleep":
                time.sleep(1000)
            case "abort":
                os.abort()
            case "eat":
                return [bytearray(2**24) for _ in range(1000)]
            case "recurse":
                return self.compile(constraint) or self.compile(constraint)
            case "refuse":
                raise GrammarError("no reason")
            case "warn":
                print("[1] x.cc:5: Warning: this is left out", file=sys.stderr)
        return Anything()
