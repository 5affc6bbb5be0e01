"""Parsers whose ids can be compared, and outputs put together from streams."""

import itertools

import pytest
from hypothesis import strategies as st

from runtime.core.tool_parsers.interface import ToolAccumulator


@pytest.fixture(scope="session")
def streamed():
    """What a stream gives of a text that is cut into pieces."""

    def run(parser, pieces):
        counter = itertools.count()
        parser.make_id = lambda: f"id{next(counter)}"
        stream, result, seen = parser.stream(), ToolAccumulator(), {}
        for delta in (*map(stream.push, pieces), stream.finish()):
            for part in delta.calls:
                # The id and the name come once, first, and indices in order.
                assert (part.id is None) == (part.name is None) == (part.index in seen)
                assert part.index in seen or part.index == len(seen)
                seen[part.index] = part
            result.add(delta)
        return result.output

    return run


def cuts(text):
    """Every way to cut a text, as hypothesis chooses."""
    places = st.lists(st.integers(0, len(text)), max_size=12)
    return places.map(
        lambda where: [text[a:b] for a, b in itertools.pairwise([0, *sorted(where), len(text)])]
    )


@pytest.fixture(scope="session")
def cut():
    """The strategy of cuts."""
    return cuts
