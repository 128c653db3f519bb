"""Files: saved and loaded without pickle, checked before anything is made of them."""

from __future__ import annotations

from spinney.persistence.store import load, save

__all__ = ["load", "save"]
