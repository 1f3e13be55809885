"""The small world: a seeded, bilingual language so small that a model of 0.16M parameters can master it.

Its documents are short stories (two people, one thing, six places), 46 facts, and sums of
single digits; 40 % are Chinese. Because every sentence comes from a known template and every event follows
known rules, what a model writes is measured and not judged: `check_document` parses the text and replays it.

In goes a seed, out come documents (`pretrain_documents`) and questions with their answers (`question`). The
same seed gives the same text on every machine.
"""

from minimind.world.check import DocumentVerdict, StoryVerdict, check_document, check_story
from minimind.world.documents import Question, pretrain_document, pretrain_documents, question
from minimind.world.sentences import STORY_OPENINGS
from minimind.world.story import Story

__all__ = [
    "STORY_OPENINGS",
    "DocumentVerdict",
    "Question",
    "Story",
    "StoryVerdict",
    "check_document",
    "check_story",
    "pretrain_document",
    "pretrain_documents",
    "question",
]
