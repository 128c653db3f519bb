"""Sequential classifiers in files."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from spinney.errors import FormatError
from spinney.file_classifiers import (
    classifier_from_parts,
    classifier_to_parts,
    policy_from_parts,
    policy_to_parts,
)
from spinney.file_container import Arrays, Settings
from spinney.file_parts import take_setting
from spinney.files import Kind, register
from spinney.guarantee import Certificate
from spinney.sequential.classifier import SequentialVotingClassifier
from spinney.sequential.strategy import StoppingStrategy
from spinney.sequential.voters import TreeVoters


def to_parts(classifier: SequentialVotingClassifier) -> tuple[Settings, Arrays]:
    """Return the settings and arrays that `from_parts` makes a classifier from."""
    settings, arrays = classifier_to_parts(classifier)
    policy_settings, policy_arrays = policy_to_parts(classifier._policy)  # type: ignore[arg-type]
    strategy, certificate = classifier.strategy_, classifier.certificate_
    settings |= policy_settings
    settings |= {
        "at_once": classifier._at_once,
        "certificate": None if certificate is None else asdict(certificate),
        "expected_disagreement": classifier.expected_disagreement_,
        "expected_votes": classifier.expected_votes_,
        "strategy": None if strategy is None else strategy.to_dict(),
    }
    return settings, arrays | policy_arrays


def from_parts(settings: Settings, arrays: Arrays) -> SequentialVotingClassifier:
    """Take a classifier out of settings and arrays, trusting neither."""
    classifier = classifier_from_parts(SequentialVotingClassifier, settings, arrays)
    forest = classifier.forest_
    policy = policy_from_parts(forest, settings, arrays)
    if forest.aggregation == "sum":
        msg = "the trees of its forest must vote"
        raise FormatError(msg)
    classifier._policy = policy
    classifier._voters = TreeVoters(forest)
    classifier._counting = policy.counting
    classifier._at_once = take_setting(settings, "at_once", bool)
    classifier.voting_ = "hard" if policy.counting == "votes" else "soft"
    classifier.order_ = policy.order
    classifier.checks_ = policy.checks
    for name in ("expected_disagreement", "expected_votes"):
        setattr(classifier, f"{name}_", take_setting(settings, name, float))
    strategy = _take_optional(settings, "strategy")
    classifier.strategy_ = (
        None if strategy is None else StoppingStrategy.from_dict(strategy)
    )
    certificate = _take_optional(settings, "certificate")
    classifier.certificate_ = None if certificate is None else _certificate(certificate)
    return classifier


def _take_optional(settings: Settings, name: str) -> Any:
    """Take a setting that is an object or null."""
    if name in settings and settings[name] is None:
        return settings.pop(name)
    return take_setting(settings, name, dict)


def _certificate(parts: Settings) -> Certificate:
    kinds = {
        field.name: int if field.name.startswith("n_") else float
        for field in fields(Certificate)
    }
    values = {name: take_setting(parts, name, kind) for name, kind in kinds.items()}
    if parts:
        msg = f"a certificate has no {sorted(parts)[0]!r}"
        raise FormatError(msg)
    return Certificate(**values)


register(Kind("sequential", SequentialVotingClassifier, to_parts, from_parts))
