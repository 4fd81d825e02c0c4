"""The program's entry, also as python -m appliance."""

import sys


def main() -> None:
    """Runs a command line; Ctrl-C while Python still reads the program ends it in one line, as later."""
    try:
        from appliance.cli.main import main as run
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted; nothing was changed.\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
