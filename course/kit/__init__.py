"""What a notebook imports to teach.

    from course.kit import source, predict, quiz, exercise, compare, flow, scrub

Each item shows a widget where a student works, and a static twin everywhere else: in an unattended run
(`MINIMIND_COURSE_UNATTENDED=1`, set by the build and the notebook tests), on a web page, on paper. Keys name
items among all of the course and start with the lesson's number: "07-loss".
"""

from course.kit.comparison import Comparison, compare
from course.kit.exercise_cards import exercise
from course.kit.exercises import Exercise, Verdict, WrongAnswer
from course.kit.listing import source
from course.kit.predictions import predict, predict_number
from course.kit.quizzes import Choice, quiz
from course.kit.steps import flow, scrub

__all__ = [
    "Choice",
    "Comparison",
    "Exercise",
    "Verdict",
    "WrongAnswer",
    "compare",
    "exercise",
    "flow",
    "predict",
    "predict_number",
    "quiz",
    "scrub",
    "source",
]
