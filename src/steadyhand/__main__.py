"""`python -m steadyhand` is the command `steadyhand`."""

from steadyhand.cli.main import main

if __name__ == "__main__":
    main()
