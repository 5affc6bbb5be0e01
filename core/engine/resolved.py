"""What an engine is to be, before anything is loaded: the way from arguments to a configuration."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from runtime.core.config.args import EngineArgs
from runtime.core.config.resolve import resolve_config
from runtime.core.config.runtime import RuntimeConfig
from runtime.core.errors import ConfigError
from runtime.core.loader.checkpoint import Checkpoint
from runtime.core.loader.open import open_checkpoint
from runtime.core.platform.select import select_platform
from runtime.core.tokenizer.interface import Tokenizer
from runtime.core.tokenizer.load import load_tokenizer
from runtime.plugins.errors import PluginError
from runtime.plugins.manager import default_manager

logger = logging.getLogger(__name__)


def load_general_plugins() -> None:
    """Call every general plugin, once a process; ConfigError where a named one fails."""
    try:
        default_manager().load_general()
    except PluginError as error:
        raise ConfigError(str(error)) from error


@dataclass(frozen=True)
class ResolvedEngine:
    """Arguments, and what they mean on this machine for this checkpoint."""

    args: EngineArgs
    config: RuntimeConfig
    checkpoint: Checkpoint

    @classmethod
    def from_args(cls, args: EngineArgs) -> ResolvedEngine:
        """Choose the platform and open the checkpoint.

        Raises:
            RuntimeUserError: says in one line what to mend.
        """
        load_general_plugins()
        selection = select_platform(args.platform)
        logger.info("platform %s", selection.reason)
        checkpoint = open_checkpoint(args.model, args.load_format)
        return cls(args, resolve_config(args, selection.platform, checkpoint), checkpoint)

    @property
    def lower_max_model_len(self) -> bool:
        """Whether ``max_model_len`` is what the memory holds."""
        return self.args.max_model_len == "auto"

    def tokenizer(self) -> Tokenizer | None:
        """The model's tokenizer, loaded; None under ``skip_tokenizer_init``."""
        if self.args.skip_tokenizer_init:
            return None
        return load_tokenizer(self.checkpoint, self.args.tokenizer)
