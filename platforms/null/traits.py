"""What the null device needs to know of an op, read once from the op's schema."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload

_WAITING_TAGS = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})

# Composites are run in parts, so that a part that moves data or waits is seen: outside inference
# mode torch does that itself. These common ones have no such part, and are run whole for speed.
_WHOLE_COMPOSITES = frozenset(
    {
        "aten::chunk",
        "aten::contiguous",
        "aten::expand_as",
        "aten::flatten",
        "aten::linear",
        "aten::matmul",
        "aten::narrow",
        "aten::reshape",
        "aten::scaled_dot_product_attention",
        "aten::softmax",
    }
)

# Index ops wait only where an index is a mask, whose shape of hits must be known.
_INDEX_OPS = frozenset(
    {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
)

# Ops beside the pointwise ones that take a 0-dim host tensor as a number.
_TAKES_HOST_NUMBER = frozenset(
    {
        "aten::fill",
        "aten::fill_",
        "aten::floor_divide",
        "aten::floor_divide_",
        "aten::index_put",
        "aten::index_put_",
        "aten::masked_fill",
        "aten::masked_fill_",
        "aten::where",
    }
)

Place = int | str
"""Where an argument stands in a call: its position, or its name if it is keyword-only."""


@dataclass(frozen=True)
class OpTraits:
    """An op, as the null device treats it."""

    name: str
    """Qualified, for messages: ``aten.add_``."""
    decompose: bool
    """A composite op whose parts are run instead."""
    waits: bool
    """The host must wait for its result's value or shape."""
    index: bool
    """Takes a list of index tensors as its second argument."""
    moves: bool
    """Copies from one device to another when its arguments say so."""
    takes_host_number: bool
    """Accepts a 0-dim host tensor where a number could stand."""
    written: tuple[Place, ...]
    """Arguments that it writes to."""
    returned: tuple[Place, ...]
    """For each result that is a written argument itself: that argument. Empty: all are new."""
    resizes: bool
    """May give a written argument another shape, strides or storage size."""


@functools.cache
def traits_of(op: OpOverload) -> OpTraits:
    """Read the traits of an op."""
    schema: Any = op._schema
    base = schema.name
    tags = set(op.tags)
    places: dict[str, Place] = {}
    written: list[Place] = []
    for position, argument in enumerate(schema.arguments):
        place: Place = argument.name if argument.kwarg_only else position
        if argument.alias_info is not None and argument.alias_info.is_write:
            written.append(place)
            places.update(dict.fromkeys(argument.alias_info.before_set, place))
    returned = [
        places[name]
        for result in schema.returns
        if result.alias_info is not None and result.alias_info.is_write
        for name in list(result.alias_info.before_set)[:1]
    ]
    waits = not tags.isdisjoint(_WAITING_TAGS)
    return OpTraits(
        name=base.replace("::", "."),
        decompose=op._can_decompose() and base not in _WHOLE_COMPOSITES,
        waits=waits and base not in _INDEX_OPS,
        index=base in _INDEX_OPS,
        moves=base in {"aten::copy_", "aten::_to_copy"},
        takes_host_number=torch.Tag.pointwise in tags or base in _TAKES_HOST_NUMBER,
        written=tuple(written),
        returned=tuple(returned),
        resizes=torch.Tag.inplace_view in tags or torch.Tag.out in tags,
    )
