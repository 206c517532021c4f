"""`python -m bench_core ...`: see cli.py."""

import sys

try:
    from bench_core.cli import main
except ModuleNotFoundError as missing:
    sys.exit(
        f"{missing.name} is not installed for {sys.executable}. After `make app` or `make test` "
        "use .venv/bin/python -m bench_core, or install what is missing: pip install click numpy "
        "psutil pydantic"
    )

main(prog_name="python -m bench_core")
