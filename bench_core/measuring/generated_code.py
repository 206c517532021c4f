"""A module that TorchInductor wrote, read as Python: its kernels, and what it calls line by line.

Read from the text rather than from the compiler, so that what is counted is what is there.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from types import CodeType
from typing import NamedTuple

# The functions that hold the calls; with CUDA graphs a module is divided into several.
CALLERS = re.compile(r"call|partition_\d+")
KINDS = {"cpp_pybinding": "C++", "cpp": "C++", "triton": "Triton", "cpp_pybinding_v2": "C++"}
# Of torch.ops, but no work: memory that is divided or looked at otherwise.
NO_WORK = ("inductor._alloc_from_pool", "inductor._reinterpret_tensor")
RECORD = "_bench_core_record"
GRAPHS_NUMBER = re.compile(r"^# AOT ID: .*\n", re.MULTILINE)


class Definition(NamedTuple):
    name: str
    kind: str
    first_line: int
    last_line: int


class Call(NamedTuple):
    """One line that does work. `buffers` are the names that it assigns or writes to."""

    line: int
    name: str
    extern: bool
    buffers: tuple[str, ...]


class Parsed(NamedTuple):
    definitions: tuple[Definition, ...]
    calls: tuple[Call, ...]


def sha256_of(text: str) -> str:
    """Equal graphs have equal code but for their number; TorchInductor runs one module for all."""
    return hashlib.sha256(GRAPHS_NUMBER.sub("", text).strip().encode()).hexdigest()


def parse(text: str) -> Parsed:
    """Raises SyntaxError where it is no Python: TorchInductor's C++ wrapper is not read."""
    tree = ast.parse(text)
    definitions = tuple(_definitions(tree))
    kernels = {one.name for one in definitions}
    calls = [
        call
        for caller in _callers(tree)
        for statement in _statements(caller.body)
        if (call := _call_in(statement, kernels))
    ]
    return Parsed(definitions, tuple(calls))


def _definitions(tree: ast.Module) -> Iterator[Definition]:
    for statement in tree.body:
        if (
            isinstance(statement, ast.Assign)
            and isinstance(statement.value, ast.Call)
            and ast.unparse(statement.value.func).startswith("async_compile.")
            and isinstance(statement.targets[0], ast.Name)
        ):
            maker = ast.unparse(statement.value.func).removeprefix("async_compile.")
            if maker in KINDS:
                last = statement.end_lineno or statement.lineno
                yield Definition(statement.targets[0].id, KINDS[maker], statement.lineno, last)


def _callers(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for statement in tree.body:
        within = statement.body if isinstance(statement, ast.ClassDef) else [statement]
        for one in within:
            if isinstance(one, ast.FunctionDef) and CALLERS.fullmatch(one.name):
                yield one


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Those in `with` blocks too: a GPU's device guard is one."""
    for statement in body:
        if isinstance(statement, ast.With):
            yield from _statements(statement.body)
        else:
            yield statement


def _call_in(statement: ast.stmt, kernels: set[str]) -> Call | None:
    if not isinstance(statement, ast.Expr | ast.Assign) or not isinstance(
        statement.value, ast.Call
    ):
        return None
    called = ast.unparse(statement.value.func)
    kernel = called.removesuffix(".run")
    extern = called.startswith(("extern_kernels.", "torch.ops.", "aten."))
    short = called.removeprefix("torch.ops.")
    if not (kernel in kernels or (extern and short not in NO_WORK)):
        return None
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    written = [word.value for word in statement.value.keywords if word.arg == "out"]
    buffers = [one.id for one in (*targets, *written) if isinstance(one, ast.Name)]
    return Call(statement.lineno, short if extern else kernel, extern, tuple(buffers))


# Watching each call


def watched(text: str) -> dict[str, CodeType]:
    """The code of the calling functions by name, with `with RECORD("LINE"):` around each call."""
    tree = ast.parse(text)
    kernels = {one.name for one in _definitions(tree)}
    names = []
    for caller in _callers(tree):
        caller.body = _wrapped(caller.body, kernels)
        names.append(caller.name)
    compiled = compile(ast.fix_missing_locations(tree), "<watched>", "exec")
    return {code.co_name: code for code in _codes(compiled) if code.co_name in names}


def _wrapped(body: list[ast.stmt], kernels: set[str]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.With):
            statement.body = _wrapped(statement.body, kernels)
        elif call := _call_in(statement, kernels):
            record = ast.parse(f"with {RECORD}('{call.line}'):\n    pass").body[0]
            assert isinstance(record, ast.With)
            record.body = [statement]
            statement = record
        found.append(statement)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
