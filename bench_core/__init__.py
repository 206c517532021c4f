"""Measure whether torch.compile pays off. The flow of one run:

1. a page or the command line builds an `Experiment` (spec.py); store.py queues its runs;
2. the worker (worker.py) claims a run and starts `python -m bench_core.measuring` for it;
3. that process, the only one with torch, answers each `go` with one epoch's events (events.py);
4. every epoch is in the SQLite file before the next one ends; a failure is a row like any other;
5. stats.py and pairing.py turn stored times into answers whenever they are read.
"""
