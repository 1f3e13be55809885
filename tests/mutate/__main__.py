"""`make mutate`: puts mistakes into copies of the package, one by one; a test must notice each.

python -m tests.mutate
python -m tests.mutate --only "labels are shifted twice"
python -m tests.mutate --only 07-parameter-count --jobs 1
python -m tests.mutate --list
"""

import argparse
import os
import subprocess
import sys

from tests.mutate.mutations import MUTATIONS
from tests.mutate.runner import ROOT, mutate


def wrong_answers() -> list[str]:
    """Names of all wrong answers of all exercises, asked of a process of their own, since torch is slow to load."""
    command = [sys.executable, "-m", "tests.mutate.banks"]
    found = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return found.stdout.splitlines()


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status: 0 when every mistake was caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", metavar="NAME", default="", help="mistakes whose names contain these words")
    parser.add_argument("--list", action="store_true", help="name all mistakes and make none")
    parser.add_argument(
        "--jobs", type=int, default=min(4, os.cpu_count() or 1), help="copies to work in at the same time"
    )
    arguments = parser.parse_args(argv)

    wanted = arguments.only.casefold()
    mutations = [mutation for mutation in MUTATIONS if wanted in mutation.name.casefold()]
    answers = [name for name in wrong_answers() if wanted in name.casefold()]
    if not mutations and not answers:
        parser.error(f"no mistake is called {arguments.only!r}; --list names them all.")
    if arguments.jobs < 1:
        parser.error(f"jobs is {arguments.jobs}: give at least 1.")
    if arguments.list:
        print(*(mutation.name for mutation in mutations), *answers, sep="\n")
        return 0
    exercises = list(dict.fromkeys(name.partition(": ")[0] for name in answers))
    return mutate(mutations, exercises, arguments.jobs)


if __name__ == "__main__":
    sys.exit(main())
