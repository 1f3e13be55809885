"""MiniMind: everything that a full-scale training run is made of, in the order in which the data travels.

config -> tokenizer -> chat -> data -> model -> objectives -> train -> evaluate -> serve,
with `trace` listening to all of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minimind.config import MiniMindConfig, RunConfig
    from minimind.model.transformer import MiniMindForCausalLM

__all__ = ["MiniMindConfig", "MiniMindForCausalLM", "RunConfig"]
__version__ = "0.1.0"

_HOMES = {
    "MiniMindConfig": "minimind.config",
    "MiniMindForCausalLM": "minimind.model.transformer",
    "RunConfig": "minimind.config",
}


def __getattr__(name: str) -> Any:
    """Imports the model only when it is asked for: `minimind.trace` needs torch and not transformers."""
    if name not in _HOMES:
        raise AttributeError(f"module 'minimind' has no attribute {name!r}; it has {', '.join(__all__)}.")
    return getattr(import_module(_HOMES[name]), name)
