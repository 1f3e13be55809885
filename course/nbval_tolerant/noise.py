"""Take out of a text what differs from run to run and says nothing: addresses, clocks, folders, line numbers."""

import re
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\x1b\[[0-9;]*m", ""),
        (r"\r\n", "\n"),
        (r"data:image/(?:png|jpeg);base64,[A-Za-z0-9+/=\s]+", "<image>"),
        (r"[^\s\"'(]*ipykernel_\d+[/\\]\d+\.py", "<cell>"),
        (re.escape(str(_ROOT)), "<root>"),
        (r"\b0x[0-9a-fA-F]{6,16}\b", "<address>"),
        (r"\bT_[0-9a-f]{5}(?=[_\" ])", "T_<id>"),  # pandas' Styler
        (r"\[\d+:\d\d(?::\d\d)?[<,][^\]\n]*\]", "[<clock>]"),  # tqdm's elapsed time and rate
        # Where a function stands is shown, and moves with every edit above it; the function itself is compared.
        (r"(?<=\.py):\d+(?:-\d+)?", ":<line>"),
    )
)


def without_noise(text: str) -> str:
    """Return the text with everything that differs from run to run replaced by a placeholder."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
