"""`python -m minimind` and the command `minimind`; torchrun needs a module to start."""

import sys


def main() -> int:
    """Runs the command line; an interruption while the libraries are still loading is no traceback either."""
    try:
        from minimind.cli import main as command_line

        return command_line()
    except KeyboardInterrupt:
        print("minimind: interrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
