"""What should stay of lesson 1, the whole game."""

from course.kit.recall import Choice, RecallItem

ITEMS = (
    RecallItem(
        key="01-recall-continues",
        question="A model was pretrained on documents and nothing else. You ask it a question. What does it do?",
        choices=(
            Choice("it answers, if the answer stood in a document", why="It has read it, but never as an answer."),
            Choice(
                "it goes on with the text, as if the question were the beginning of a document",
                right=True,
                why="Each update asked for the next token of a document; that is what it does with any text.",
            ),
            Choice("it writes nothing, since a question is not a document", why="To the model a question is text."),
        ),
    ),
    RecallItem(
        key="01-recall-labels",
        question="Which tokens of a conversation have labels in fine-tuning?",
        choices=(
            Choice(
                "what the assistant says, and the end of its turn",
                right=True,
                why="The rest is read and not asked for; with the end it learns to stop.",
            ),
            Choice("all of them", why="Then it learns to write the user's turns and the template too."),
            Choice("the question, since it decides the answer", why="It is read. What is asked for is the answer."),
        ),
    ),
    RecallItem(
        key="01-recall-rule",
        question="A model answers nearly all sums that it was trained on. What does that say about adding?",
        choices=(
            Choice("that it has found the rule", why="Remembering each sum gives the same answers."),
            Choice(
                "that it has found the rule, if the loss is low enough too",
                why="A perfect memory has the lowest loss.",
            ),
            Choice(
                "nothing yet: ask sums that were kept out of training",
                right=True,
                why="In lesson 1 it did 3 + 4 and 4 + 5, and not 4 + 4, which it had never been shown.",
            ),
        ),
    ),
    RecallItem(
        key="01-recall-forgetting",
        question="After fine-tuning on questions, the loss on documents is several times what it was. Why?",
        choices=(
            Choice("the documents were held out, so it never knew them", why="It had a low loss on them before."),
            Choice(
                "the updates moved parameters that documents depend on, and none asked for documents",
                right=True,
                why="This is forgetting. Mixing documents into the second stage would hold them.",
            ),
            Choice("the tokenizer has changed", why="Both stages use the same one; they could not share weights else."),
        ),
    ),
)
