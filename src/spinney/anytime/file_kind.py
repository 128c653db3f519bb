"""Anytime classifiers in files."""

from __future__ import annotations

import numpy as np

from spinney.anytime.classifier import AnytimeForestClassifier
from spinney.base.classifier_fields import classifier_from_parts, classifier_to_parts
from spinney.errors import FormatError, SpinneyError
from spinney.persistence.container import Arrays, Settings
from spinney.persistence.fields import take_array
from spinney.persistence.store import Kind, register


def to_parts(classifier: AnytimeForestClassifier) -> tuple[Settings, Arrays]:
    """Return the settings and arrays that `from_parts` makes a classifier from."""
    settings, arrays = classifier_to_parts(classifier)
    arrays["order"] = classifier.order_
    return settings, arrays


def from_parts(settings: Settings, arrays: Arrays) -> AnytimeForestClassifier:
    """Take a classifier out of settings and arrays, trusting neither."""
    classifier: AnytimeForestClassifier = classifier_from_parts(
        AnytimeForestClassifier, settings, arrays
    )
    order = take_array(arrays, "order", np.int64, 1)
    try:
        classifier._take_order(order)
    except SpinneyError as error:
        raise FormatError(str(error).rstrip(".")) from error
    return classifier


register(Kind("anytime", AnytimeForestClassifier, to_parts, from_parts))
