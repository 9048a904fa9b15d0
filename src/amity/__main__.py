"""`python -m amity ...` is the command `amity ...`."""

from amity.cli.app import main

if __name__ == "__main__":
    main()
