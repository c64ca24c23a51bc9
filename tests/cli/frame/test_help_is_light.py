"""`herd COMMAND --help` imports nothing heavy: no arrays, no artifacts, no session."""

from __future__ import annotations

import subprocess
import sys

from herdcli.cli.main import COMMANDS

HEAVY = ("numpy", "scipy", "h5py", "pyarrow", "matplotlib", "rich", "herdcli.artifacts", "herdcli.cli.frame.run.session", "herdcli.fast")
SCRIPT = """
import sys
from click.testing import CliRunner
from herdcli.cli.main import COMMANDS, cli
heavy, found = sys.argv[1].split(","), {}
for name in (None, *COMMANDS):
    before = {module for module in heavy if module in sys.modules}
    ended = CliRunner().invoke(cli, [name, "--help"] if name else ["--help"])
    assert ended.exit_code == 0 and "Usage: " in ended.output, (name, ended.output)
    found[name] = sorted(module for module in heavy if module in sys.modules and module not in before)
print({name: modules for name, modules in found.items() if modules})
"""


def test_help_of_no_command_imports_a_heavy_module():
    """All in one process: a module that one command has imported would be told of it, and the next ones are looked at all the same."""
    ended = subprocess.run([sys.executable, "-c", SCRIPT, ",".join(HEAVY)], capture_output=True, text=True, check=True, timeout=60, cwd="/")
    assert ended.stdout == "{}\n"
    assert len(COMMANDS) > 15
