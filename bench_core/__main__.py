"""`python -m bench_core ...`: see cli.py."""

from bench_core.cli import main

main(prog_name="python -m bench_core")
