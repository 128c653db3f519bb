"""
Stop sampling a language model when the majority is clear
=========================================================

The majority of 40 samples is better than a single answer, and costs 40 calls. Most
questions are clear after a few. ``optimal_strategy`` says when to stop: on average at
most one question in a hundred is decided differently than by all 40 samples, with as
few calls as possible. No trees are involved, and the strategy uses nothing but past
votes.

The sampler here is simulated: each question has its own probability that a sample says
yes. Replace it by a call of your own model.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import spinney

N_SAMPLES = 40
MAX_DISAGREEMENT = 0.01


class SimulatedModel:
    """Says yes or no; on most questions nearly always the same."""

    def __init__(self, n_questions, seed):
        self.rng = np.random.default_rng(seed)
        self.yes = self.rng.beta(0.3, 0.4, size=n_questions)
        self.n_calls = 0

    def sample(self, question):
        """Answer a question once. This is the call that costs money."""
        self.n_calls += 1
        return bool(self.rng.random() < self.yes[question])


def main():
    # Past questions, all of them sampled in full, show how clear votes usually are.
    past = SimulatedModel(2000, seed=0)
    n_yes = [sum(past.sample(q) for _ in range(N_SAMPLES)) for q in range(2000)]
    votes = np.bincount(n_yes, minlength=N_SAMPLES + 1)

    # One more of each, so that no count is treated as impossible.
    strategy = spinney.optimal_strategy(N_SAMPLES, MAX_DISAGREEMENT, votes=votes + 1)
    print(f"promised: {strategy.expected_votes:.1f} of {N_SAMPLES} samples on average,")
    print(f"          {strategy.proven_disagreement:.2%} decided differently")

    # New questions. Samples come independently, so any order is a random order.
    n_questions = 3000
    model = SimulatedModel(n_questions, seed=1)
    n_different = 0
    n_cast = []
    for question in range(n_questions):
        poll = strategy.poll(random_state=question)
        answers = []
        while not poll.decided:
            answers.append(model.sample(question))
            poll.cast(answers[-1])
        n_cast.append(poll.n_cast)
        # For comparison only: what would all samples have said?
        calls = model.n_calls
        answers += [model.sample(question) for _ in range(N_SAMPLES - len(answers))]
        model.n_calls = calls
        n_different += poll.decision != (2 * sum(answers) > N_SAMPLES)

    full = n_questions * N_SAMPLES
    print(f"measured: {np.mean(n_cast):.1f} samples on average,")
    print(f"          {n_different / n_questions:.2%} decided differently")
    print(f"calls saved: {full - model.n_calls:,} of {full:,} ", end="")
    print(f"({1 - model.n_calls / full:.0%})")
    print("questions by samples needed:")
    for least, most in ((1, 5), (6, 10), (11, 20), (21, 39), (40, 40)):
        share = np.mean([least <= n <= most for n in n_cast])
        span = f"{least} to {most}" if least < most else f"{least}"
        print(f"  {span:>8}  {share:6.1%}  {'#' * round(50 * share)}")

    # A bound for every single question, whatever its votes are:
    careful = spinney.optimal_strategy(
        N_SAMPLES, MAX_DISAGREEMENT, objective="minimixed", votes=votes
    )
    print(f"bound for every question alone: {careful.expected_votes:.1f} samples")

    strategy.plot()
    plt.show()


if __name__ == "__main__":
    main()
