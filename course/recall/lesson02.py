"""What should stay of lesson 2, readiness."""

from course.kit.recall import Choice, RecallItem

ITEMS = (
    RecallItem(
        key="02-recall-memory",
        question=(
            "A model has 100 MB of weights and is trained with AdamW. How much do weights, gradients and optimizer "
            "hold together?"
        ),
        choices=(
            Choice("about 200 MB", why="Weights and gradients alone make that; AdamW keeps two averages as well."),
            Choice("about 400 MB", right=True, why="Weights, gradients, and AdamW's two averages, each of that size."),
            Choice(
                "about 300 MB",
                why="That is a checkpoint: weights and averages. While an update is made, the gradients are there too.",
            ),
        ),
    ),
    RecallItem(
        key="02-recall-corpus",
        question="A text file lost its second half, at the end of a row. What does a training run say?",
        choices=(
            Choice(
                "an error with file and line", why="That is what a row cut in its middle gives. Here no row is broken."
            ),
            Choice("a warning that rows are missing", why="Nothing in the file says how many rows there once were."),
            Choice(
                "nothing unusual, only a smaller number of rows",
                right=True,
                why="Half a text file is a text file. Only a known count or hash tells.",
            ),
        ),
    ),
    RecallItem(
        key="02-recall-bfloat16",
        question="Why does a readiness check ask the chip for bfloat16 instructions, and not only torch?",
        choices=(
            Choice(
                "torch computes bfloat16 also where the chip cannot, only slowly",
                right=True,
                why="It emulates it on a CPU. Right and slow: degraded, not missing.",
            ),
            Choice(
                "torch refuses bfloat16 on every CPU", why="It accepts it on every CPU, with instructions or without."
            ),
            Choice(
                "bfloat16 gives wrong results without them",
                why="The emulation rounds as it should; it only takes time.",
            ),
        ),
    ),
    RecallItem(
        key="02-recall-checkpoints",
        question="`--keep_checkpoints 2`: for how many checkpoints must there be room on the disk?",
        choices=(
            Choice("three", right=True, why="Two that are kept, and the one that is being written."),
            Choice("two", why="For a moment there are more: the new one is verified before an old one goes."),
            Choice("one, since each replaces the last", why="Then a crash while writing would leave none."),
        ),
    ),
)
