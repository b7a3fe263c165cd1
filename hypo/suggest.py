"""Errors of one sentence: a misspelt name is refused with the nearest valid one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def _nearest(value: str, valid: list[str]) -> str | None:
    by_lower = {name.lower(): name for name in valid}
    begun = [name for name in by_lower if value and name.startswith(value.lower())]
    near = begun or difflib.get_close_matches(value.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[near[0]] if near else None


def one_of(what: str, value: str, valid: Iterable[str]) -> str:
    """Return `value` if it is valid, else refuse it and name the nearest valid one."""
    valid = list(valid)
    if value in valid:
        return value
    near = _nearest(str(value), valid)
    hint = f"did you mean {near}? " if near else ""
    raise ValueError(f"unknown {what} {value!r}: {hint}valid are {', '.join(valid) or 'none'}")


def sentence(error: BaseException) -> str:
    """What went wrong in one line; of an error of the system its words and the file, not its number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.strerror}: {error.filename}"
    return " ".join(str(error).split())
