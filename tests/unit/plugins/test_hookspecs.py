"""Each hook, called through a real distribution, in both forms that an entry point may have."""

HOOKS = """
from runtime.plugins import hookimpl
"""

MODULE = (
    HOOKS
    + """
from runtime.core.platform.interface import Platform, ProbeResult

class Device(Platform):
    name = "modular"
    device_type = "cpu"
    capabilities = devices = memory = None

    @classmethod
    def probe(cls):
        return ProbeResult(50, "ready")

@hookimpl
def runtime_platform():
    return __name__ + ":Device"

@hookimpl
def runtime_register():
    note("register")
"""
)

OBJECT = (
    MODULE.replace("modular", "objective")
    + """
class Plugin:
    @hookimpl
    def runtime_platform(self):
        return __name__ + ":Device"

    @hookimpl
    def runtime_register(self):
        note("register by object")

plugin = Plugin()
"""
)


def test_runtime_platform_as_a_hook_of_a_module(site):
    site.install("acme-modular", MODULE, platforms={"modular": "acme_modular"})
    assert site.plugins().selected == ["modular"]


def test_runtime_platform_as_a_hook_of_an_object(site):
    site.install("acme-objective", OBJECT, platforms={"objective": "acme_objective:plugin"})
    assert site.plugins().selected == ["objective"]


def test_runtime_platform_as_a_plain_callable(site):
    site.install_platform("plain")
    listing = site.plugins()
    assert listing.selected == ["plain"]
    assert listing["plain"] | {"load_ms": 0} == {
        "group": "runtime.platform_plugins",
        "name": "plain",
        "distribution": "acme-plain",
        "version": "1.2",
        "value": "acme_plain:register",
        "state": "selected",
        "score": 50,
        "reason": "ready",
        "load_ms": 0,
    }
    assert 0 < listing["plain"]["load_ms"] < 5000


def test_runtime_platform_may_be_none(site):
    site.install(
        "acme-shy", "def register():\n    return None\n", platforms={"shy": "acme_shy:register"}
    )
    listing = site.plugins()
    assert listing["shy"]["state"] == "not available"
    assert listing["shy"]["reason"] == "the plugin offers no platform here"
    assert listing.selected == ["cpu"]
    assert not listing.warnings


def test_runtime_register_as_a_hook_of_a_module(site):
    site.install("acme-modular", MODULE, general={"models": "acme_modular"})
    listing = site.plugins()
    assert (listing["models"]["state"], listing["models"]["reason"]) == ("available", "registered")
    assert site.events() == ["import acme_modular", "register"]


def test_runtime_register_as_a_hook_of_an_object(site):
    site.install("acme-objective", OBJECT, general={"models": "acme_objective:plugin"})
    assert site.plugins()["models"]["state"] == "available"
    assert site.events() == ["import acme_objective", "register by object"]


def test_runtime_register_as_a_plain_callable(site):
    site.install_general("models")
    assert site.plugins()["models"]["state"] == "available"
    assert site.events() == ["import acme_models", "register"]


def test_one_module_serves_both_groups(site):
    site.install(
        "acme-modular",
        MODULE,
        platforms={"modular": "acme_modular"},
        general={"models": "acme_modular"},
    )
    listing = site.plugins()
    assert listing.states["modular"] == "selected"
    assert listing.states["models"] == "available"
    assert site.events() == ["import acme_modular", "register"]


HARDWARE = """
from runtime.plugins.hardware import Hardware

def seen():
    note("look")
    return [Hardware("card", "an Acme card", "/dev/acme0", "acme", "install acme-runtime")]
"""
LINE = "found an Acme card (/dev/acme0) that no installed platform serves; install acme-runtime"


def test_runtime_hardware_as_a_plain_callable(site):
    site.install("acme-cards", HARDWARE, hardware={"cards": "acme_cards:seen"})
    assert site.plugins()["cards"]["reason"] == LINE
    assert site.events() == ["import acme_cards", "look"]


def test_runtime_hardware_as_a_hook_of_a_module(site):
    source = HARDWARE + HOOKS + "\n@hookimpl\ndef runtime_hardware():\n    return seen()\n"
    site.install("acme-cards", source, hardware={"cards": "acme_cards"})
    assert site.plugins()["cards"]["reason"] == LINE


def test_runtime_hardware_may_be_none(site):
    site.install("acme-cards", "def seen():\n    pass\n", hardware={"cards": "acme_cards:seen"})
    row = site.plugins()["cards"]
    assert (row["state"], row["reason"]) == ("available", "nothing that no platform serves")


SERVER = """
from fastapi import APIRouter
from runtime.plugins import ServerExtension

router = APIRouter()

@router.get("/acme")
def acme():
    return {"acme": True}

def extend():
    note("extend")
    return ServerExtension(routers=[router])
"""
ASK = """
from fastapi import FastAPI
from runtime.core.entrypoints.server.extensions import server_extensions
for extension in server_extensions():
    app = FastAPI()
    for router in extension.routers:
        app.include_router(router)
    print(*app.openapi()["paths"])
"""


def test_runtime_server_as_a_plain_callable(site):
    site.install("acme-web", SERVER, server={"web": "acme_web:extend"})
    done = site.python("-c", ASK)
    assert done.stdout == "/acme\n", done.stderr
    assert site.events() == ["import acme_web", "extend"]
    row = site.plugins()["web"]
    assert (row["group"], row["state"]) == ("runtime.server_plugins", "available")


def test_runtime_server_as_a_hook_of_a_module(site):
    source = SERVER + HOOKS + "\n@hookimpl\ndef runtime_server():\n    return extend()\n"
    site.install("acme-web", source, server={"web": "acme_web"})
    assert site.python("-c", ASK).stdout == "/acme\n"


def test_runtime_server_may_be_none(site):
    site.install("acme-web", "def extend():\n    pass\n", server={"web": "acme_web:extend"})
    done = site.python("-c", ASK)
    assert (done.stdout, done.stderr) == ("", "")


def test_runtime_server_that_returns_something_else_is_a_failed_plugin(site):
    site.install("acme-web", "def extend():\n    return 5\n", server={"web": "acme_web:extend"})
    done = site.python("-c", ASK)
    assert done.returncode == 0
    assert "returned 5 where a ServerExtension is expected" in done.stderr
    named = site.python("-c", ASK, VLLM_PLUGINS="web")
    assert named.returncode == 1
    assert "PluginError" in named.stderr
