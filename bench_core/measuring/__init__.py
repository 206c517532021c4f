"""The process that owns torch: a RunSpec in on stdin, events out on stdout, then exit.

Started by the worker as `python -m bench_core.measuring`; no other part of the program imports
anything from here, and from the program only spec, events and paths are imported here. It knows
no database and no page, so that it can run on another machine as it is.
"""
