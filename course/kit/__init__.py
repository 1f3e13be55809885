"""What a notebook imports to teach.

    from course.kit import source, predict, quiz, recall, exercise, compare, flow, scrub
    from course.kit import explore_sampling, course_map, progress, start_over

Each item shows a widget where a student works, and a static twin everywhere else: in an unattended run
(`MINIMIND_COURSE_UNATTENDED=1`, set by the build and the notebook tests), on a web page, on paper. Keys name
items among all of the course and start with the lesson's number: "07-loss". What a student answers is saved
where `make course` started the kernel (see `course.kit.answers`), and comes back when the notebook is opened again.
"""

from course.kit.comparison import Comparison, compare
from course.kit.course_map import course_map
from course.kit.exercise_cards import exercise
from course.kit.exercises import Exercise, Verdict, WrongAnswer
from course.kit.listing import source
from course.kit.predictions import predict, predict_number
from course.kit.progress import progress, start_over
from course.kit.quizzes import Choice, quiz
from course.kit.recall import RecallItem, recall
from course.kit.sampling_explorer import explore_sampling
from course.kit.steps import flow, scrub

__all__ = [
    "Choice",
    "Comparison",
    "Exercise",
    "RecallItem",
    "Verdict",
    "WrongAnswer",
    "compare",
    "course_map",
    "exercise",
    "explore_sampling",
    "flow",
    "predict",
    "predict_number",
    "progress",
    "quiz",
    "recall",
    "scrub",
    "source",
    "start_over",
]
