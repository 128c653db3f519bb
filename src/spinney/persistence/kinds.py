"""The kinds of objects that files hold, and how each is taken apart."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from spinney.errors import FormatError
from spinney.forest import Forest
from spinney.persistence.container import Arrays, Settings
from spinney.persistence.fields import forest_from_parts, forest_to_parts

# All kinds of objects that can be saved: what a file calls the kind, and its class.
# The name never changes; an instance of a subclass is another kind. A class is imported
# only when an object of its kind is loaded.
#
# A class has two methods for this. ``__spinney_save__(self)`` returns the settings and
# arrays of an object, and refuses what cannot be stored with a `TypeError` or
# `ValueError`. The class method ``__spinney_load__(cls, settings, arrays)`` takes all
# that belongs to an object out of them and returns the object. Both may be forged: it
# checks them, and refuses with `FormatError`.
KINDS = {
    "all_trees": "spinney.base.all_trees:AllTreesClassifier",
    "all_trees_regressor": "spinney.base.all_trees_regressor:AllTreesRegressor",
    "anytime": "spinney.anytime.classifier:AnytimeForestClassifier",
    "budgeted_forest": "spinney.pruning.budgeted:BudgetedForestClassifier",
    "cascade": "spinney.cascade.classifier:CascadeClassifier",
    "feature_cost_pruner": "spinney.pruning.pruner:FeatureCostPruner",
    "forest": "spinney.forest.forest:Forest",
    "sequential": "spinney.sequential.classifier:SequentialVotingClassifier",
}


def is_saved_as_it_is(obj: Any) -> bool:
    """Whether there is a kind of file for objects of exactly this class."""
    return f"{type(obj).__module__}:{type(obj).__qualname__}" in KINDS.values()


def taken_apart(obj: Any) -> tuple[str, Settings, Arrays]:
    """Return the kind of an object, its settings and its arrays.

    Parameters
    ----------
    obj : Forest, or fitted classifier or regressor of spinney
        The object.

    Raises
    ------
    TypeError
        If it is of no kind that can be saved.
    """
    own = f"{type(obj).__module__}:{type(obj).__qualname__}"
    for kind, cls in KINDS.items():
        if cls == own:
            # A forest is a layer below files, so it is taken apart from here.
            parts = (
                forest_to_parts(obj) if type(obj) is Forest else obj.__spinney_save__()
            )
            return kind, *parts
    known = ", ".join(sorted(cls.partition(":")[2] for cls in KINDS.values()))
    msg = (
        f"save cannot save an object of type {type(obj).__module__}."
        f"{type(obj).__qualname__}. It saves objects of these types: {known}.\n"
        "Hint: spinney.accelerate makes one of a trained model, and "
        "spinney.read_model a Forest. The state of a Monitor is what its status() "
        "returns, plain enough for JSON, and merge() takes it back."
    )
    raise TypeError(msg)


def put_together(kind: str, settings: Settings, arrays: Arrays) -> Any:
    """Take an object out of settings and arrays, which may be forged.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    settings, arrays : dict
        Its parts; what belongs to it is taken out.
    """
    if kind not in KINDS:
        msg = f"{kind!r:.40} is not a known kind of object"
        raise FormatError(msg)
    if kind == "forest":
        return forest_from_parts(settings, arrays)
    module, _, name = KINDS[kind].partition(":")
    return getattr(import_module(module), name).__spinney_load__(settings, arrays)
