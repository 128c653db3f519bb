"""Early exit from a sum of scores: order and thresholds for additive ensembles."""

from __future__ import annotations

from spinney.cascade.classifier import CascadeClassifier
from spinney.cascade.scorers import Cascade, fit_cascade

__all__ = ["Cascade", "CascadeClassifier", "fit_cascade"]
