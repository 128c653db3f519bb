"""The front door: a trained model in, a faster one out, with a promise."""

from __future__ import annotations

from spinney.acceleration.accelerate import accelerate

__all__ = ["accelerate"]
