"""What should stay of lesson 3, inference."""

from course.kit.recall import Choice, RecallItem

ITEMS = (
    RecallItem(
        key="03-recall-last-position",
        question=(
            "The model reads a prompt of 23 tokens and answers with logits of shape (1, 23, 800). Which of them choose "
            "the first token of the reply?"
        ),
        choices=(
            Choice("the 800 of the last position", right=True, why="Only that position is asked what comes next."),
            Choice("all of them, averaged", why="Each position answers for its own next token; nothing is averaged."),
            Choice(
                "the 800 of the first position",
                why="It saw one token and answers for the second, which is in the prompt already.",
            ),
        ),
    ),
    RecallItem(
        key="03-recall-top-p",
        question="The likeliest tokens have the probabilities 0.5, 0.3 and 0.1. Which of them stay with top-p 0.6?",
        choices=(
            Choice(
                "the first alone, since two would be more than 0.6", why="It reaches 0.5 only, and 0.6 is asked for."
            ),
            Choice("all three", why="The first two reach 0.8 already; what comes after the border goes."),
            Choice("the first two", right=True, why="The one that crosses the border stays: 0.5 + 0.3 reaches 0.6."),
        ),
    ),
    RecallItem(
        key="03-recall-template",
        question="A chat model is given a question without its template. What happens?",
        choices=(
            Choice("It raises an error, since no turn is open.", why="Any ids can be gone on with; nothing raises."),
            Choice(
                "It goes on with the text in some way, and nothing says that this is no answer.",
                right=True,
                why="That it answers was learned together with the template. Its confidence gives nothing away.",
            ),
            Choice("It answers, only less surely.", why="In the lesson it wrote about cats, and was asked for a sum."),
        ),
    ),
    RecallItem(
        key="03-recall-stop",
        question="A reply is complete, and the loop does not know the stop token. What does the model do?",
        choices=(
            Choice(
                "It goes on until the limit, with what was never trained.", right=True, why="It cannot stop by itself."
            ),
            Choice(
                "It writes padding.", why="Padding is what a program fills with. The model never learned to say it."
            ),
            Choice("It stops, since it has nothing more to say.", why="It gives a next token whatever stands before."),
        ),
    ),
)
