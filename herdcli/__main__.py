"""Entry point: `python -m herdcli` runs `herd`."""

from herdcli.cli.main import main

if __name__ == "__main__":
    main()
