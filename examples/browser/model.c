/* What the page calls: memory for one row and for what comes out, and three functions.
   There is one page, so that one row of global memory will do; the exported code itself
   has none. */
#include "early.h"
#include "steps.h"

static float row[early_N_FEATURES];
static double lead[steps_MAX_STEPS + 1];
static int32_t answers[steps_MAX_STEPS + 1];
static int evaluated;

#define EXPORT(name) __attribute__((export_name(#name)))

EXPORT(row_address) float *row_address(void) { return row; }
EXPORT(lead_address) double *lead_address(void) { return lead; }
EXPORT(answers_address) int32_t *answers_address(void) { return answers; }
EXPORT(n_evaluated) int n_evaluated(void) { return evaluated; }

EXPORT(predict) int predict(void) { return early_predict_counted(row, &evaluated); }

EXPORT(take_all_steps) void take_all_steps(void) {
    static steps_state state;
    size_t k = 0;
    steps_start(&state, row);
    do {
        lead[k] = (double)state.sums[state.current][1]
            - (double)state.sums[state.current][0];
        answers[k] = steps_answer(&state);
        k++;
    } while (steps_step(&state));
    lead[k] = (double)state.sums[state.current][1]
        - (double)state.sums[state.current][0];
    answers[k] = steps_answer(&state);
}
