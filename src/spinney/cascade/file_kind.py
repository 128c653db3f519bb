"""Cascade classifiers in files."""

from __future__ import annotations

from typing import Any

import numpy as np

from spinney.base.classifier_fields import (
    certificate_to_setting,
    classifier_from_parts,
    classifier_to_parts,
    policy_from_parts,
    policy_to_parts,
    take_certificate,
)
from spinney.cascade.classifier import CascadeClassifier
from spinney.cascade.fan import FanPolicy
from spinney.errors import FormatError
from spinney.forest import Forest
from spinney.ordering import ExitPolicy
from spinney.ordering.checks import check_order, check_steps
from spinney.persistence.container import Arrays, Settings
from spinney.persistence.fields import take_array, take_setting
from spinney.runtime.early_exit import Policy
from spinney.runtime.row_kernels import BETWEEN, BY_MARGIN

FAN_ARRAYS = {
    "order": np.int64,
    "check_steps": np.int64,
    "first_bin": np.int64,
    "offsets": np.int64,
    "mean": np.float64,
    "deviation": np.float64,
}
FAN_NUMBERS = ("beta", "bin_width", "gamma")


def to_parts(classifier: CascadeClassifier) -> tuple[Settings, Arrays]:
    """Return the settings and arrays that `from_parts` makes a classifier from."""
    settings, arrays = classifier_to_parts(classifier)
    settings |= {
        "certificate": certificate_to_setting(classifier.certificate_),
        "expected_disagreement": classifier.expected_disagreement_,
        "expected_trees": classifier.expected_trees_,
    }
    policy = classifier._policy
    if isinstance(policy, FanPolicy):
        settings |= {name: float(getattr(policy, name)) for name in FAN_NUMBERS}
        settings["early_exit"] = policy.early_exit
        return settings, arrays | {name: getattr(policy, name) for name in FAN_ARRAYS}
    assert isinstance(classifier._engine, Policy)
    policy_settings, policy_arrays = policy_to_parts(classifier._engine)
    return settings | policy_settings, arrays | policy_arrays


def from_parts(settings: Settings, arrays: Arrays) -> CascadeClassifier:
    """Take a classifier out of settings and arrays, trusting neither."""
    classifier: CascadeClassifier = classifier_from_parts(
        CascadeClassifier, settings, arrays
    )
    forest = classifier.forest_
    if "bin_width" in settings:
        classifier._adopt(_fan_policy(forest, settings, arrays))
    else:
        classifier._adopt(_exit_policy(policy_from_parts(forest, settings, arrays)))
    for name in ("expected_disagreement", "expected_trees"):
        setattr(classifier, f"{name}_", take_setting(settings, name, float))
    classifier.certificate_ = take_certificate(settings)
    return classifier


def _exit_policy(policy: Policy) -> ExitPolicy:
    rule = policy.rule
    if rule.kind not in (BETWEEN, BY_MARGIN) or policy.counting != "scores":
        msg = "its rule must be about scores"
        raise FormatError(msg)
    if rule.kind == BY_MARGIN:
        return ExitPolicy(policy.order, rule.checks, margin=rule.bounds[0])
    return ExitPolicy(policy.order, rule.checks, rule.bounds[0], rule.bounds[1])


def _fan_policy(forest: Forest, settings: Settings, arrays: Arrays) -> FanPolicy:
    parts: dict[str, Any] = {
        name: np.array(take_array(arrays, name, dtype, 1))
        for name, dtype in FAN_ARRAYS.items()
    }
    parts |= {name: take_setting(settings, name, float) for name in FAN_NUMBERS}
    parts["early_exit"] = take_setting(settings, "early_exit", str)
    try:
        check_order(parts["order"], forest.n_trees)
        check_steps(parts["check_steps"], forest.n_trees)
    except ValueError as error:
        raise FormatError(str(error).rstrip(".")) from error
    n_checks, offsets = len(parts["check_steps"]), parts["offsets"]
    if (
        len(forest.classes_) != 2  # type: ignore[arg-type]
        or parts["first_bin"].shape != (n_checks,)
        or offsets.shape != (n_checks + 1,)
        or offsets[0] != 0
        or np.any(np.diff(offsets) < 1)
        or parts["mean"].shape != (offsets[-1],)
        or parts["deviation"].shape != (offsets[-1],)
        or not 0.0 < parts["bin_width"] < np.inf
        or not parts["gamma"] >= 0.0
        or parts["early_exit"] not in ("both", "negative", "positive")
    ):
        msg = "its bins do not fit together"
        raise FormatError(msg)
    return FanPolicy(**parts)
