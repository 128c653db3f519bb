"""The model's own evaluation: all trees, in its own order and type of sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.export.c_text import Tables, fill, float_type, number, unsigned_type
from spinney.export.curves import curve_source
from spinney.export.layout import Layout
from spinney.export.program import Program
from spinney.forest import Forest
from spinney.forest.links import CLOSE, LARGEST_FLOAT32_EXPONENT

SCORES = """
/* Raw scores of all trees, added up in the order and the type of the model. */
static void $name($argument, $sum *total) {
    size_t tree, at, v;
$declarations    for (v = 0; v < $n_outputs; v++) {
        total[v] = $start;
    }
    for (tree = 0; tree < $n_trees; tree++) {
$leaf$add    }
$finish}
"""
SEVERAL = """        for (v = 0; v < $n_values; v++) {
            total[v] += $value;
        }
"""
FINISH = """    for (v = 0; v < $n_outputs; v++) {
        total[v] = $outcome;
    }
"""

ARGMAX = """    size_t v, best = 0;
    for (v = 1; v < $n; v++) {
        if (total[v] > total[best]) {
            best = v;
        }
    }
"""
WINNER = """
/* The class that wins with these raw scores; of equal ones the first. */
static int P_winner(const $sum *total) {
$body}
"""
# Rounding can make two probabilities equal though their scores differ.
BY_SOFTMAX = """    $sum power[$n], sum_of_powers;
    double sum = 0;
    int close = 0;
$argmax    for (v = 0; v < $n; v++) {
        close |= v != best && total[best] - total[v] <= $close;
    }
    if (!close) {
        return (int)best;
    }
    for (v = 0; v < $n; v++) {
        power[v] = $exp(total[v] - total[best]);
        sum += power[v];
    }
    sum_of_powers = ($sum)sum;
    for (v = 0; v < $n; v++) {
        power[v] /= sum_of_powers;
    }
    for (best = 0, v = 1; v < $n; v++) {
        if (power[v] > power[best]) {
            best = v;
        }
    }
    return (int)best;
"""
BY_LOGISTIC = """    $sum probability[$n];
    size_t v, best = 0;
    for (v = 0; v < $n; v++) {
        probability[v] = P_logistic(total[v]);
    }
    for (v = 1; v < $n; v++) {
        if (probability[v] > probability[best]) {
            best = v;
        }
    }
    return (int)best;
"""
LOGISTIC = """
static $sum P_logistic($sum x) {
$body}
"""
LOGISTIC_FLOAT = """    float exponent = $scale * x;
    if (exponent > $largest) {
        exponent = $largest;
    }
    return 1.0f / (1.0f + (float)exp((double)exponent));
"""
LOGISTIC_DOUBLE = """    return 1.0 / (1.0 + exp($scale * x));
"""


# One value per output, in the type of the sums.
PROBABILITIES = """
void P_predict_proba(const $row *row, $proba *probabilities) {
    $sum total[$n_outputs];
$locals    P_scores(row, total);
$body}
"""
PROBA_OF_ONE = """    probabilities[1] = $link;
    probabilities[0] = 1 - probabilities[1];
"""
PROBA_BY_CURVE = """    P_curve($link, probabilities);
"""
PROBA_OF_EACH = """    for (v = 0; v < $n; v++) {
        probabilities[v] = $link;
    }
"""
PROBA_BY_SOFTMAX = """    for (v = 1; v < $n; v++) {
        if (total[v] > total[best]) {
            best = v;
        }
    }
    for (v = 0; v < $n; v++) {
        probabilities[v] = $exp(total[v] - total[best]);
        sum += probabilities[v];
    }
    for (v = 0; v < $n; v++) {
        probabilities[v] /= ($sum)sum;
    }
"""
PUBLIC_SCORES = """
void P_scores(const $row *row, $sum *scores) {
$load    P_own_scores(keys, scores);
}
"""
NUMBER = """
$sum P_predict(const $row *row) {
    $sum total[1];
    P_scores(row, total);
    return $link;
}
"""
NUMBERS_AS_THEY_ARE = """
void P_predict(const $row *row, $sum *numbers) {
    P_scores(row, numbers);
}
"""
NUMBERS = """
void P_predict(const $row *row, $sum *numbers) {
    size_t v;
    P_scores(row, numbers);
    for (v = 0; v < $n; v++) {
        numbers[v] = $link;
    }
}
"""


def value_rows(forest: Forest) -> NDArray[np.float64]:
    """Return what each node adds to the raw scores, as the forest rounds it.

    Parameters
    ----------
    forest : Forest
        The forest. Where trees vote, it is the class that a node votes for.
    """
    if forest.aggregation == "vote":
        return forest.value.argmax(axis=1)[:, None].astype(np.float64)
    with np.errstate(over="ignore"):
        return forest.value.astype(forest.sum_dtype).astype(np.float64)


class OwnScores:
    """The functions that evaluate a forest as the forest itself does.

    Parameters
    ----------
    program : Program
        What the code has to do.
    layout : Layout
        Where the trees are.
    tables : Tables
        Added to.
    """

    def __init__(self, program: Program, layout: Layout, tables: Tables) -> None:
        self.program = program
        self.layout = layout
        self.tables = tables
        single = program.forest.sum_dtype == "float32"
        self.sum_type = "float" if single else "double"
        self.exp = "expf" if single else "exp"
        curve = program.forest.curve
        self.proba_type = self.sum_type if curve is None else "double"
        self.needs_math = False

    def add_tables(self, first: NDArray[np.intp]) -> None:
        """Add what leaves add, and what comes before and after them.

        Parameters
        ----------
        first : ndarray of int
            A node for every leaf value index.
        """
        program, forest, layout = self.program, self.program.forest, self.layout
        values = value_rows(program.ordered)[first]
        value = layout.value_of("at")
        if forest.aggregation == "vote":
            kind = unsigned_type(max(int(values.max()), 256))
            self.tables.add("P_vote", values.astype(np.int64), kind, "vote of a leaf")
            self._add = f"        total[P_vote[{value}]] += 1;\n"
        else:
            self.tables.add("P_own", values, float_type(values), "what a leaf adds")
            self._add = f"        total[0] += P_own[{value}];\n"
        if forest.tree_output is not None:
            kind = unsigned_type(max(forest.n_outputs, 256))
            self.tables.add("P_own_output", forest.tree_output, kind, "its output")
            self._add = f"        total[P_own_output[tree]] += P_own[{value}];\n"
        elif forest.n_outputs > 1 and forest.aggregation != "vote":
            one = f"P_own[{forest.n_outputs} * {value} + v]"
            self._add = fill(SEVERAL, n_values=forest.n_outputs, value=one)
        if program.is_reordered:
            layout.add_own_order(self.tables, program.position)
        self._begin = self._per_output("P_base_first", self._base("first"))
        self._finish = self._finishing()

    def scores_source(self) -> str:
        """Return the function that adds up all trees for a row."""
        layout = self.layout
        leaf = layout.leaf_of("tree", own=self.program.is_reordered)
        argument = f"const {layout.keys_type} *keys"
        return self._adding("P_own_scores", argument, leaf, layout.declarations)

    def scores_of_state_source(self) -> str:
        """Return the function that adds up the leaves that a state has reached."""
        leaf = "        at = (size_t)P_LEAF(state->tree[tree]);\n"
        return self._adding("P_scores_of_leaves", "const P_state *state", leaf, "")

    def scores_lazily_source(self) -> str:
        """Return the function that adds up all trees, buying features on the way."""
        leaf = "        at = P_walk_buying(p, tree);\n"
        return self._adding("P_scores_lazily", "P_purchases *p", leaf, "")

    def _adding(self, name: str, argument: str, leaf: str, declarations: str) -> str:
        return fill(
            SCORES,
            name=name,
            argument=argument,
            sum=self.sum_type,
            n_outputs=self.program.forest.n_outputs,
            n_trees=self.program.forest.n_trees,
            declarations=declarations,
            start=self._begin,
            leaf=leaf,
            add=self._add,
            finish=self._finish,
        )

    def _base(self, when: str) -> NDArray[np.float64]:
        forest = self.program.forest
        base = forest.base_score if forest.base_added == when else 0 * forest.base_score
        return base.astype(forest.sum_dtype).astype(np.float64)

    def _per_output(self, name: str, numbers: NDArray[np.float64]) -> str:
        """Return an expression for one number per output `v`."""
        texts = {number(value, self.sum_type) for value in numbers.tolist()}
        if len(texts) == 1:
            return texts.pop()
        self.tables.add(name, numbers, self.sum_type)
        return f"{name}[v]"

    def _finishing(self) -> str:
        """Return what happens after the last tree."""
        forest, last = self.program.forest, self._base("last")
        outcome = "total[v]"
        if forest.aggregation != "sum":
            output = forest.tree_output
            per_output = np.full(forest.n_outputs, float(forest.n_trees))
            if output is not None:
                counts = np.bincount(output, minlength=forest.n_outputs)
                per_output = np.maximum(counts, 1).astype(np.float64)
            outcome += f" / {self._per_output('P_trees_per_output', per_output)}"
        if last.any():
            outcome += f" + {self._per_output('P_base_last', last)}"
        if outcome == "total[v]":
            return ""
        return fill(FINISH, n_outputs=forest.n_outputs, outcome=outcome)

    # ---------------------------------------------------------------- classes

    def winner_source(self) -> str:
        """Return the function that decides by raw scores."""
        forest, parts = self.program.forest, self._parts()
        if self.program.n_classes == 1:
            body = "    (void)total;\n    return 0;\n"
        elif forest.n_outputs == 1:
            with np.errstate(over="ignore"):
                threshold = np.dtype(forest.sum_dtype).type(forest.decision_threshold)
            body = f"    return total[0] >= {number(threshold, self.sum_type)};\n"
        elif forest.decides_by == "probability" and forest.link == "softmax":
            self.needs_math = True
            body = fill(
                BY_SOFTMAX, close=number(CLOSE, self.sum_type), exp=self.exp, **parts
            )
        elif forest.decides_by == "probability" and forest.link != "identity":
            body = fill(BY_LOGISTIC, **parts)
        else:
            body = parts["argmax"] + "    return (int)best;\n"
        return fill(WINNER, body=body, **parts)

    @property
    def decides_by_logistic(self) -> bool:
        """Whether the class depends on logistic curves."""
        forest = self.program.forest
        return (
            self.program.n_classes > 1
            and forest.n_outputs > 1
            and forest.decides_by == "probability"
            and forest.link in ("logistic", "logistic_each")
        )

    def _parts(self) -> dict[str, str]:
        n = self.program.forest.n_outputs
        return {
            "sum": self.sum_type,
            "n": str(n),
            "argmax": fill(ARGMAX, n=n),
        }

    def logistic_source(self) -> str:
        """Return the logistic curve of the model's library."""
        self.needs_math = True
        scale = number(-self.program.forest.link_scale, self.sum_type)
        if self.sum_type == "float":
            most = number(float(LARGEST_FLOAT32_EXPONENT), "float")
            body = fill(LOGISTIC_FLOAT, scale=scale, largest=most)
        else:
            body = fill(LOGISTIC_DOUBLE, scale=scale)
        return fill(LOGISTIC, sum=self.sum_type, body=body)

    # ---------------------------------------------------------------- public

    def public_source(self, load: str) -> str:
        """Return the functions that the header declares, but for those of a rule.

        Parameters
        ----------
        load : str
            Statements that make `keys` of `row`.
        """
        forest, row = self.program.forest, self.layout.slots.row_type
        parts = {"row": row, "sum": self.sum_type, "n": str(forest.n_outputs)}
        source = fill(PUBLIC_SCORES, load=load, **parts)
        if self.program.n_classes:
            if forest.link == "none":
                return source
            return source + self._probabilities_source(parts)
        link = "{}"
        if forest.link == "exp":
            self.needs_math = True
            # As in Python: by way of double.
            link = "(float)exp((double){})" if self.sum_type == "float" else "exp({})"
        if forest.n_outputs == 1:
            return source + fill(NUMBER, link=link.format("total[0]"), **parts)
        if forest.link == "identity":
            return source + fill(NUMBERS_AS_THEY_ARE, **parts)
        return source + fill(NUMBERS, link=link.format("numbers[v]"), **parts)

    def _probabilities_source(self, parts: dict[str, str]) -> str:
        forest, n = self.program.forest, self.program.forest.n_outputs
        is_logistic = forest.link in ("logistic", "logistic_each")
        link = "P_logistic({})" if is_logistic else "{}"
        curve = ""
        by_curve = forest.curve if self.program.n_classes > 1 else None
        if by_curve is not None and by_curve.of == "raw":
            is_logistic, link = False, "{}"
        if is_logistic and not self.decides_by_logistic:
            curve = self.logistic_source()
        if by_curve is not None:
            curve += curve_source(by_curve, self.sum_type, self.tables)
            self.needs_math |= by_curve.kind != "isotonic"
        local = ""
        if forest.n_probabilities == 1:
            body = "    probabilities[0] = total[0];\n"
        elif by_curve is not None:
            body = fill(PROBA_BY_CURVE, link=link.format("total[0]"))
        elif n == 1:
            body = fill(PROBA_OF_ONE, link=link.format("total[0]"))
        elif forest.link == "softmax":
            self.needs_math = True
            local = "    size_t v, best = 0;\n    double sum = 0;\n"
            body = fill(PROBA_BY_SOFTMAX, exp=self.exp, **parts)
        else:
            local = "    size_t v;\n"
            body = fill(PROBA_OF_EACH, link=link.format("total[v]"), **parts)
        return curve + fill(
            PROBABILITIES,
            locals=local,
            body=body,
            n_outputs=n,
            proba=self.proba_type,
            **parts,
        )

    @property
    def prototypes(self) -> list[str]:
        """Declarations for the header."""
        row, kind, n = self.layout.slots.row_type, self.sum_type, self.program.n_classes
        n_outputs = self.program.forest.n_outputs
        scores = f"void P_scores(const {row} *row, {kind} *scores);"
        if n:
            found = [f"/* Raw scores of all trees: {n_outputs} numbers. */\n{scores}"]
            if self.program.forest.link != "none":
                n_columns = self.program.forest.n_probabilities
                found.append(
                    f"/* Probabilities of all trees: {n_columns} numbers. */\n"
                    f"void P_predict_proba(const {row} *row, "
                    f"{self.proba_type} *probabilities);"
                )
            return found
        if n_outputs == 1:
            predict = f"/* The number. */\n{kind} P_predict(const {row} *row);"
        else:
            predict = (
                f"/* {n_outputs} numbers. */\n"
                f"void P_predict(const {row} *row, {kind} *numbers);"
            )
        return [predict, f"/* Before the link: {n_outputs} numbers. */\n{scores}"]
