"""Forests that can be stopped after any single step and still predict."""

from __future__ import annotations

from spinney.anytime.classifier import AnytimeForestClassifier
from spinney.anytime.orders import normalised_mean_accuracy
from spinney.anytime.session import AnytimeSession
from spinney.ordering.step_orders import ORDERS

__all__ = [
    "ORDERS",
    "AnytimeForestClassifier",
    "AnytimeSession",
    "normalised_mean_accuracy",
]
