"""What should stay of lesson 7, the pretraining entry."""

from course.kit.recall import Choice, RecallItem

ITEMS = (
    RecallItem(
        key="07-recall-first-loss",
        question="A new model has a vocabulary of 800 tokens. Near which value should the loss of its first update be?",
        choices=(
            Choice(
                "log 6400, about 8.8",
                why="That is the loss of a model that cannot tell 6,400 tokens apart; this one has 800.",
            ),
            Choice(
                "log 800, about 6.7",
                right=True,
                why="Untrained, it gives each of the 800 tokens about the same probability: -log(1/800).",
            ),
            Choice(
                "log of the number of its parameters",
                why="The loss is about the choice among tokens; how many parameters make that choice is not in it.",
            ),
        ),
    ),
    RecallItem(
        key="07-recall-zero-grad",
        question=(
            "Somebody deletes `zero_grad()` from the step, and `grad_clip` is 0. Which recorded number tells you, "
            "without a healthy run beside it?"
        ),
        choices=(
            Choice("the loss, which rises", why="It still falls, only a little more slowly, and slower than what?"),
            Choice("the learning rate, which falls", why="It comes from the schedule and knows nothing of gradients."),
            Choice(
                "the gradient norm, which grows",
                right=True,
                why="Each update adds its gradient to all earlier ones. With the clip on, even this is hidden.",
            ),
        ),
    ),
    RecallItem(
        key="07-recall-first-movement",
        question=(
            "In the first update with AdamW, one entry has a gradient a thousand times as large as another's. How far "
            "does it move?"
        ),
        choices=(
            Choice(
                "as far as the other, by the learning rate",
                right=True,
                why="The gradient is divided by the root of its own square, so only its sign is left.",
            ),
            Choice("a thousand times as far", why="So it is in plain gradient descent; AdamW divides the size away."),
            Choice(
                "as far as the other, since the clip makes them equal",
                why="The clip shortens all entries by one factor, so a thousand times as large stays that.",
            ),
        ),
    ),
    RecallItem(
        key="07-recall-shift",
        question="Which label does the pretraining dataset put under the token at position 3?",
        choices=(
            Choice(
                "the token at position 4, since that is what position 3 has to predict",
                why="The loss shifts. If the dataset did it as well, each position would be asked for the token after "
                "the next.",
            ),
            Choice("-100, since that token is known already", why="-100 stands where nothing is asked, as at padding."),
            Choice(
                "the token at position 3",
                right=True,
                why="The labels are the ids again; the shift happens once, inside the loss.",
            ),
        ),
    ),
)
