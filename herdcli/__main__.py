"""`python -m herdcli` is `herd`."""

from herdcli.cli.main import main

if __name__ == "__main__":
    main()
