"""MiniMind: everything that a full-scale training run is made of, in the order in which the data travels.

config -> tokenizer -> data -> model -> objectives -> train -> evaluate, with `trace` listening to all of it.
"""

from minimind.config import MiniMindConfig, RunConfig
from minimind.model.transformer import MiniMindForCausalLM

__all__ = ["MiniMindConfig", "MiniMindForCausalLM", "RunConfig"]
__version__ = "0.1.0"
