"""Plugins that cannot be loaded: each is refused with the reason, and the others go on.

All of them are installed beside each other and listed once; each test reads its own row.
"""

import pytest

RUNTIME_API = "runtime_plugin_api = {version!r}\n"
GOOD = "def register():\n    pass\n"
HOOKIMPL = "from runtime.plugins import hookimpl\n\n@hookimpl\n"

# name: (source, attribute of the entry point or "" for the module itself)
GENERAL = {
    "raises-at-import": ("import a_module_that_is_not_there\n" + GOOD, "register"),
    "raises-with-cause": (
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n"
        "    raise OSError('libacme.so:\\n  cannot open') from error\n",
        "register",
    ),
    "raises-when-called": ("def register():\n    raise KeyError('acme')\n", "register"),
    "exits": ("import sys\nsys.exit('no licence')\n", "register"),
    "syntax-error": ("def register(:\n", "register"),
    "no-such-attribute": (GOOD, "enroll"),
    "not-callable": ("register = 42\n", "register"),
    "wrong-callable": ("def register(config):\n    pass\n", "register"),
    "optional-argument": ("def register(config=None):\n    pass\n", "register"),
    "wrong-hook": (HOOKIMPL + "def runtime_register(config):\n    pass\n", ""),
    "unknown-hook": (HOOKIMPL + "def runtime_registre():\n    pass\n", ""),
    "async": ("async def register():\n    pass\n", "register"),
    "async-hook": (HOOKIMPL + "async def runtime_register():\n    pass\n", ""),
    "generator": ("def register():\n    yield\n", "register"),
    "other-groups-hook": (HOOKIMPL + "def runtime_platform():\n    pass\n", ""),
    "malformed-value": (GOOD, "register of it"),
    "api-same": (RUNTIME_API.format(version=(1, 0)) + GOOD, "register"),
    "api-text": (RUNTIME_API.format(version="1.0") + GOOD, "register"),
    "api-newer-minor": (RUNTIME_API.format(version=(1, 7)) + GOOD, "register"),
    "api-newer-major": (RUNTIME_API.format(version="2.0") + GOOD, "register"),
    "api-older-major": (RUNTIME_API.format(version=(0, 9)) + GOOD, "register"),
    "api-malformed": (RUNTIME_API.format(version="one") + GOOD, "register"),
    "api-three-parts": (RUNTIME_API.format(version=(1, 0, 0)) + GOOD, "register"),
    "api-on-function": (GOOD + "register.runtime_plugin_api = (3, 0)\n", "register"),
    "api-on-module": (
        RUNTIME_API.format(version=(1, 9)) + HOOKIMPL + "def runtime_register():\n    pass\n",
        "",
    ),
    "good": (GOOD, "register"),
}

REASONS = {
    "raises-at-import": "ModuleNotFoundError: No module named 'a_module_that_is_not_there'",
    "raises-with-cause": (
        "OSError: libacme.so: cannot open (caused by ZeroDivisionError: division by zero)"
    ),
    "raises-when-called": "KeyError: 'acme'",
    "exits": "SystemExit: no licence",
    "syntax-error": "SyntaxError: invalid syntax (acme_syntax_error.py, line 7)",
    "no-such-attribute": (
        "AttributeError: module 'acme_no_such_attribute' has no attribute 'enroll'"
    ),
    "not-callable": (
        "acme_not_callable:register is neither callable nor has functions marked @hookimpl"
    ),
    "wrong-callable": "is register(config), but is called as runtime_register() -> None",
    "wrong-hook": ("implements runtime_register(config), the hook is runtime_register() -> None"),
    "unknown-hook": (
        "implements runtime_registre(), which is no hook "
        "(known: runtime_hardware, runtime_platform, runtime_register, "
        "runtime_server)"
    ),
    "async": "register is declared async: it is called and not awaited; make it plain",
    "async-hook": (
        "runtime_register is declared async: it is called and not awaited; make it plain"
    ),
    "generator": "register is a generator: calling it would run nothing; remove the yield",
    "other-groups-hook": (
        "implements runtime_platform, but no runtime_register() -> None, "
        "which its entry point's group calls"
    ),
    "malformed-value": (
        "its entry point's value 'acme_malformed_value:register of it' is not of the form "
        "package.module:attribute"
    ),
    "api-newer-minor": (
        "written for plugin API 1.7, this runtime has 1.0: install versions of the two that agree"
    ),
    "api-newer-major": (
        "written for plugin API 2.0, this runtime has 1.0: install versions of the two that agree"
    ),
    "api-older-major": (
        "written for plugin API 0.9, this runtime has 1.0: install versions of the two that agree"
    ),
    "api-malformed": "runtime_plugin_api='one' must be (major, minor) or 'major.minor'",
    "api-three-parts": "runtime_plugin_api=(1, 0, 0) must be (major, minor) or 'major.minor'",
    "api-on-function": (
        "written for plugin API 3.0, this runtime has 1.0: install versions of the two that agree"
    ),
    "api-on-module": (
        "written for plugin API 1.9, this runtime has 1.0: install versions of the two that agree"
    ),
}


@pytest.fixture(scope="module")
def listing(shared_site):
    for name, (source, attribute) in GENERAL.items():
        module = f"acme_{name.replace('-', '_')}"
        value = f"{module}:{attribute}" if attribute else module
        shared_site.install(f"acme-{name}", source, general={name: value})
    return shared_site.plugins()


@pytest.mark.parametrize("name", REASONS)
def test_a_broken_plugin_is_refused_with_the_reason(listing, name):
    assert listing[name]["state"] == "failed"
    assert listing[name]["reason"] == REASONS[name]


@pytest.mark.parametrize("name", sorted(GENERAL.keys() - REASONS.keys()))
def test_a_plugin_in_order_is_loaded_beside_broken_ones(listing, name):
    assert listing[name]["state"] == "available"


def test_each_broken_plugin_is_one_warning_that_names_it(listing):
    assert len(listing.warnings) == len(REASONS)
    for name in REASONS:
        start = f"plugin {name!r} of acme-{name} 1.2 failed: {listing[name]['reason']}"
        assert sum(start in line for line in listing.warnings) == 1


def test_the_engine_goes_on(listing):
    assert listing.done.returncode == 0
    assert listing.selected == ["cpu"]


def test_a_platform_entry_point_with_another_groups_hook_is_refused(site):
    source = HOOKIMPL + "def runtime_register():\n    pass\n"
    site.install("acme-left", source, platforms={"left": "acme_left"})
    assert site.plugins()["left"]["reason"] == (
        "implements runtime_register, but no runtime_platform() -> str | None, "
        "which its entry point's group calls"
    )


def test_a_distribution_without_metadata_is_unknown(site):
    site.install_general("models")
    (metadata,) = site.folder.glob("*.dist-info/METADATA")
    metadata.unlink()
    row = site.plugins()["models"]
    assert (row["distribution"], row["version"]) == ("unknown", "?")
    assert row["state"] == "available"
