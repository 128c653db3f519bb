"""Put a forest into a web page: exported as C, compiled to WebAssembly, no server.

A random forest is exported twice, once as a classifier that exits early and once as an
anytime forest, compiled to WebAssembly with clang, and put into one HTML page with a
slider for every feature. The page shows the prediction, the number of trees evaluated,
and the score step by step. It loads nothing from the network: open the file.

Needs clang and lld (on Debian: apt-get install clang lld). Without them the script says
so and writes nothing.

Run it: python examples/forest_in_the_browser.py page.html
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from string import Template

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

import spinney

HERE = Path(__file__).parent / "browser"
FEATURES = (
    "mean radius",
    "mean texture",
    "mean smoothness",
    "mean concavity",
    "mean concave points",
    "worst area",
    "worst symmetry",
)


def fitted():
    """Return an early-exit classifier, an anytime forest, and the rows."""
    data = load_breast_cancer()
    columns = [list(data.feature_names).index(name) for name in FEATURES]
    X, y = data.data[:, columns].astype(np.float32), data.target_names[data.target]
    model = RandomForestClassifier(40, max_depth=5, random_state=0)
    model.fit(X[:250], y[:250])
    inside = FrozenEstimator(model)
    early = spinney.SequentialVotingClassifier(
        inside, voting="soft", max_disagreement=0.01, random_state=0
    ).fit(X[250:])
    steps = spinney.AnytimeForestClassifier(inside).fit(X[250:], y[250:])
    return early, steps, X


def webassembly(early, steps):
    """Return both as one WebAssembly module, without any library."""
    with tempfile.TemporaryDirectory() as folder:
        spinney.export_c(early, Path(folder, "early.c"))
        spinney.export_c(steps, Path(folder, "steps.c"))
        command = ["clang", "--target=wasm32", "-O2", "-ffreestanding", "-nostdlib"]
        command += ["-Wl,--no-entry", "-Wl,--strip-all", f"-I{folder}"]
        command += ["-o", f"{folder}/model.wasm", str(HERE / "model.c")]
        command += [f"{folder}/early.c", f"{folder}/steps.c"]
        subprocess.run(command, check=True)
        return Path(folder, "model.wasm").read_bytes()


def page(early, steps, X):
    """Return the page as text."""
    code = webassembly(early, steps)
    low, middle, high = np.quantile(X, [0.01, 0.5, 0.99], axis=0)
    features = [
        {"name": name, "low": float(a), "value": float(b), "high": float(c)}
        for name, a, b, c in zip(FEATURES, low, middle, high, strict=True)
    ]
    forest = early.forest_
    description = (
        f"A random forest of {forest.n_trees} trees, exported as C and compiled to "
        f"{len(code):,} bytes of WebAssembly. Move a slider: predictions are computed "
        "here, by the same code that runs on a microcontroller. The prediction exits "
        "early, so that near the decision threshold it can differ from that of all "
        "trees, where the curve ends. Data: breast cancer, Wisconsin; no medical "
        "advice."
    )
    text = Template((HERE / "page.html").read_text(encoding="utf-8")).safe_substitute(
        description=description,
        features=json.dumps(features),
        labels=json.dumps(early.classes_.tolist()),
        n_trees=forest.n_trees,
        n_steps=len(steps.order_),
        wasm=base64.b64encode(code).decode("ascii"),
    )
    return text, len(code)


def main():
    """Write the page to the file named on the command line, or say how large it is."""
    if shutil.which("clang") is None or shutil.which("wasm-ld") is None:
        print("needs clang and lld to compile to WebAssembly; nothing was written")
        return
    early, steps, X = fitted()
    text, n_bytes = page(early, steps, X)
    print(f"WebAssembly: {n_bytes:,} bytes")
    print(f"page:        {len(text.encode()):,} bytes, nothing else to load")
    arguments = [word for word in sys.argv[1:] if word.endswith(".html")]
    if arguments:
        Path(arguments[0]).write_text(text, encoding="utf-8")
        print(f"written to {arguments[0]}")


if __name__ == "__main__":
    main()
