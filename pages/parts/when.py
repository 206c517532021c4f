"""Times of day as people say them, in the reader's own time zone."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st


def reader_zone() -> tzinfo:
    """The browser's time zone; UTC where it does not say."""
    try:
        return ZoneInfo(st.context.timezone or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        return UTC


def when_text(at: float | None, zone: tzinfo, now: datetime | None = None) -> str:
    """Unix seconds as `today 14:47`, `yesterday 09:12`, `3 Dec 11:30`, `3 Dec 2026`.

    Empty where it is not known.
    """
    if not at:  # 0 is a file's that states no time
        return ""
    then = datetime.fromtimestamp(at, zone)
    today = (now or datetime.now(UTC)).astimezone(zone).date()
    days = (today - then.date()).days
    if days in (0, 1):
        return f"{'today' if days == 0 else 'yesterday'} {then:%H:%M}"
    date = f"{then.day} {then:%b}"
    return f"{date} {then:%H:%M}" if then.year == today.year else f"{date} {then.year}"
