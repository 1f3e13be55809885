"""The trained weights that labs of inference look into."""

from pathlib import Path

from transformers import PreTrainedTokenizerFast

from minimind.model.hub import load_weights
from minimind.model.transformer import MiniMindForCausalLM
from minimind.tokenizer import load_tokenizer

WORLD_CHAT = Path(__file__).parent / "weights" / "world-chat"


def world_chat() -> tuple[MiniMindForCausalLM, PreTrainedTokenizerFast]:
    """A model of 162,240 parameters that knows the small world and answers questions about it, in fp32, and its
    tokenizer; `labs/weights/SOURCES.md` says how both were made.

    Raises:
        ValueError: the folder is not there or damaged.
    """
    model = load_weights(WORLD_CHAT)
    model.eval()
    return model, load_tokenizer(WORLD_CHAT)
