"""Write docs/hooks.md from the specifications of the hooks.

python scripts/hook_reference.py > docs/hooks.md
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from runtime.plugins import hookspecs
from runtime.plugins.deprecations import DEPRECATIONS, version_text
from runtime.plugins.groups import HOOK_OF_GROUP
from runtime.plugins.hookspecs import PLUGIN_API_VERSION
from runtime.plugins.loading import API_ATTRIBUTE, hook_signature
from runtime.plugins.order import AFTER, BEFORE

HEAD = """\
# Hook reference

<!-- Written by scripts/hook_reference.py from plugins/hookspecs.py. -->

These are all the hooks of plugin API {version}. An entry point is a plain callable, which stands
for its group's hook, or a module or object with functions marked `@hookimpl`:

| entry point group | hook |
|---|---|
"""

ATTRIBUTES = """\
## Attributes

A plugin may set these on its module, function or object.

| attribute | value | effect |
|---|---|---|
| `{api}` | `(major, minor)` or `"major.minor"` | the plugin API that it was written for: another \
major version, or a newer minor one, is refused. Without it the plugin is taken as compatible |
| `{before}`, `{after}` | a plugin's name, or a tuple of names | general plugins register in an \
order that keeps these wishes, and by name otherwise. Names that are not installed are ignored; a \
circle is an error |

## Deprecations
"""


def reference() -> str:
    """The whole page."""
    groups = {hook: group for group, hook in HOOK_OF_GROUP.items()}
    rows = "".join(f"| `{group}` | `{hook}` |\n" for hook, group in groups.items())
    sections = "\n".join(_section(hook) for hook in groups)
    attributes = ATTRIBUTES.format(api=API_ATTRIBUTE, before=BEFORE, after=AFTER)
    head = HEAD.format(version=version_text(PLUGIN_API_VERSION))
    return f"{head}{rows}\n{sections}\n{attributes}\n{''.join(_deprecations())}"


def _section(hook: str) -> str:
    """A hook's signature and docstring, as Markdown."""
    text = inspect.getdoc(getattr(hookspecs, hook)) or ""
    words = re.sub(r"``(.+?)``", r"`\1`", text)
    return f"## `{hook_signature(hook)}`\n\n{words}\n"


def _deprecations() -> Iterator[str]:
    """A table, or a line where there is nothing to list."""
    if not DEPRECATIONS:
        yield "None.\n"
        return
    yield "| name | deprecated since | removed in | instead |\n|---|---|---|---|\n"
    for entry in DEPRECATIONS:
        since, end = version_text(entry.since), version_text(entry.removed_in)
        yield f"| `{entry.what}` | {since} | {end} | {entry.instead} |\n"


if __name__ == "__main__":
    print(reference(), end="")
