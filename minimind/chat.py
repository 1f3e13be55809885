"""A conversation -> ids, and which of them the assistant has to say.

Every turn is `<|im_start|>ROLE`, a line feed, what was said, `<|im_end|>`, a line feed. The model learns to write what
stands in an assistant's turn, its `<|im_end|>` included, since that is how it says that it has finished.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerFast

from minimind.tokenizer import encode_text

ROLES = ("system", "user", "assistant")
Message = Mapping[str, str]
"""`{"role": "user", "content": "What is 2 + 3?"}`."""


@dataclass(frozen=True)
class EncodedChat:
    """A conversation as ids.

    Attributes:
        input_ids: of all turns.
        supervised: for each id, whether the assistant has to say it: its words and the end of its turn.
    """

    input_ids: list[int]
    supervised: list[bool]


def encode_chat(
    tokenizer: PreTrainedTokenizerFast, messages: Sequence[Message], answer_follows: bool = False
) -> EncodedChat:
    """Encodes the turns of a conversation.

    What was said is encoded as plain text: a `<|im_end|>` that a person typed ends nothing. Without such strings in it
    `tokenizer.apply_chat_template` gives the same ids.

    Args:
        tokenizer: one of the course's.
        messages: the turns, in order.
        answer_follows: end with the head of an assistant's turn, so that the model goes on with the answer.

    Raises:
        ValueError: a message that is no message; the sentence names its place and the field.
    """
    require_messages(messages)
    ids: list[int] = []
    supervised: list[bool] = []

    def add(more: list[int], learned: bool) -> None:
        ids.extend(more)
        supervised.extend([learned] * len(more))

    def head(role: str) -> list[int]:
        return [tokenizer.bos_token_id, *encode_text(tokenizer, f"{role}\n")]

    line_feed = encode_text(tokenizer, "\n")
    for message in messages:
        learned = message["role"] == "assistant"
        add(head(message["role"]), False)
        add([*encode_text(tokenizer, message["content"]), tokenizer.eos_token_id], learned)
        add(line_feed, False)
    if answer_follows:
        add(head("assistant"), False)
    return EncodedChat(ids, supervised)


def require_messages(messages: object) -> None:
    """Makes sure that something is a conversation.

    Raises:
        ValueError: it is not; the sentence names the message, counted from 1, and the field.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise ValueError(f"a conversation must be a list of messages, and this is {type(messages).__name__}.")
    if not messages:
        raise ValueError("a conversation needs at least one message, and this one has none.")
    for number, message in enumerate(messages, start=1):
        if not isinstance(message, Mapping):
            raise ValueError(f"message {number} must be an object with role and content, and it is {message!r}.")
        role, content = message.get("role"), message.get("content")
        if role not in ROLES:
            raise ValueError(f"message {number}: role is {role!r}; it must be one of {', '.join(ROLES)}.")
        if not isinstance(content, str):
            raise ValueError(f"message {number}: content is {content!r}; it must be a text.")
        if any(0xD800 <= ord(character) <= 0xDFFF for character in content):
            raise ValueError(f"message {number}: content holds half a character, {content!r}; give whole ones.")
