"""C code of the functions that exit early, with gaps to be filled."""

from __future__ import annotations

COUNTED = """
int P_predict_counted(const $row *row, int *n_evaluated) {
    $sum total[$n_sums];
    size_t tree, at$v$k;
$declarations$load$start    for (tree = 0; tree < $n_trees; tree++) {
$leaf$add$check    }
    *n_evaluated = $n_trees;
$end}
"""
CHECK = """        if (k < $n_exits && P_exit[k] == tree + 1) {
            const int answer = P_leaves(total, k);
            if (answer >= 0) {
                *n_evaluated = (int)tree + 1;
                return answer;
            }
            k++;
        }
"""
# The sums of a stage are added up by themselves first, as the rule was fitted.
COUNTED_BY_BIN = """
int P_predict_counted(const $row *row, int *n_evaluated) {
    double total = $start, stage = 0;
    size_t tree, at, k = 0;
    int may_leave = 1;
$declarations$load    *n_evaluated = $n_trees;
    for (tree = 0; may_leave && tree < $n_trees; tree++) {
$leaf        stage += $value;
        if (P_exit[k] == tree + 1) {
            int answer;
            total += stage;
            stage = 0;
            answer = P_leaves(total, k);
            if (answer >= 0) {
                *n_evaluated = (int)tree + 1;
                return answer;
            }
            k++;
            may_leave = answer == -1 && k < $n_exits;
        }
    }
$end}
"""
AT_ONCE = """
int P_predict_counted(const $row *row, int *n_evaluated) {
    (void)row;
    *n_evaluated = 0;
    return 0;
}
"""
PREDICT = """
int P_predict(const $row *row) {
    int n_evaluated;
    return P_predict_counted(row, &n_evaluated);
}
"""
LEAVES = """
/* The class with which a row exits at an exit point, or -1. */
static int P_leaves($argument, size_t k) {
$body}
"""
LEAVES_BETWEEN = """    if (total[0] < $lower) {
        return 0;
    }
    return total[0] > $upper ? 1 : -1;
"""
LEAVES_BY_COUNT = """    return P_answer[P_answer_first[k] + (size_t)total[0]] - 1;
"""
BEST_TWO = """    size_t v, best = 0, second;
    for (v = 1; v < $n; v++) {
        if (total[v] > total[best]) {
            best = v;
        }
    }
    second = best == 0;
    for (v = 0; v < $n; v++) {
        if (v != best && total[v] > total[second]) {
            second = v;
        }
    }
"""
LEAVES_BY_MARGIN = """    return total[best] - total[second] > $margin ? (int)best : -1;
"""
LEAVES_BY_LEAD = """    const size_t row = P_limit_first[k];
    return total[second] <= P_limit[row + (size_t)total[best]] ? (int)best : -1;
"""
LEAVES_BY_ALL_COUNTS = """    uint32_t v, j, cast = 0, rank = 0, term;
    unsigned answer;
    for (v = 0; v + 1 < $n; v++) {
        const uint32_t votes = (uint32_t)total[v];
        cast += votes;
        term = cast;
        for (j = 1; j <= v; j++) {
            term = term * (cast + j) / (j + 1);
        }
        rank += term;
    }
    answer = (unsigned)P_answer[P_answer_first[k] + (size_t)(rank / 2)];
    answer = (rank % 2 ? answer >> 4 : answer) & 15u;
    return answer == 15u ? -1 : (int)answer;
"""
LEAVES_BY_BIN = """    const double number = total / $width;
    double floor_of, ahead, deviation, sure;
    size_t bin;
    if (!(number >= P_bin_low[k] && number < P_bin_high[k])) {
        return -2;
    }
    floor_of = (double)(int64_t)number;
    if (floor_of > number) {
        floor_of -= 1.0;
    }
    bin = P_bin_first[k] + (size_t)(floor_of - P_bin_low[k]);
    if (!P_bin_known[bin]) {
        return -2;
    }
    ahead = total - $beta - P_bin_mean[bin];
    deviation = P_bin_deviation[bin];
    sure = 0;
    if (ahead > 0 || ahead < 0) {
        sure = deviation > 0 ? ahead / deviation : (ahead > 0 ? $most : -$most);
    }
$answers    return -1;
"""
FINAL_ONE = """    return total[0] >= $threshold;
"""
FINAL_ONE_CLOSE = """    if (!(total[0] - $threshold > $tolerance
          || $threshold - total[0] > $tolerance)) {
$model    }
"""
FINAL_SEVERAL = """    {
        size_t best = 0;
        for (v = 1; v < $n; v++) {
            if (total[v] > total[best]) {
                best = v;
            }
        }
$close        return (int)best;
    }
"""
FINAL_SEVERAL_CLOSE = """        for (v = 0; v < $n; v++) {
            if (v != best && !(total[best] - total[v] > $tolerance)) {
$model            }
        }
"""
MODEL = """$indent{
$indent    $sum scores[$n];
$indent    P_own_scores(keys, scores);
$indent    return P_winner(scores);
$indent}
"""
