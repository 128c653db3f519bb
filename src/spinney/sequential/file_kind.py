"""Sequential classifiers in files."""

from __future__ import annotations

from spinney.base.classifier_fields import (
    certificate_to_setting,
    classifier_from_parts,
    classifier_to_parts,
    policy_from_parts,
    policy_to_parts,
    take_certificate,
)
from spinney.errors import FormatError
from spinney.persistence.container import Arrays, Settings
from spinney.persistence.fields import take_setting
from spinney.sequential.classifier import SequentialVotingClassifier
from spinney.sequential.strategy import StoppingStrategy
from spinney.sequential.voters import TreeVoters


def to_parts(classifier: SequentialVotingClassifier) -> tuple[Settings, Arrays]:
    """Return the settings and arrays that `from_parts` makes a classifier from."""
    settings, arrays = classifier_to_parts(classifier)
    policy_settings, policy_arrays = policy_to_parts(classifier._policy)  # type: ignore[arg-type]
    strategy = classifier.strategy_
    settings |= policy_settings
    settings |= {
        "at_once": classifier._at_once,
        "certificate": certificate_to_setting(classifier.certificate_),
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
    classifier.strategy_ = None
    if settings.get("strategy", 0) is None:
        del settings["strategy"]
    else:
        strategy = take_setting(settings, "strategy", dict)
        classifier.strategy_ = StoppingStrategy.from_dict(strategy)
    classifier.certificate_ = take_certificate(settings)
    return classifier
