"""The program of the documentation runs on an emulated Cortex-M3."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import spinney
from export.native import need
from export.targets import CORTEX_LINK, CORTEX_START, QEMU_CORTEX, run

pytestmark = pytest.mark.targets
PAGE = Path(__file__).parent.parent.parent / "docs" / "export.md"


def test_from_a_trained_model_to_a_running_microcontroller(tmp_path, monkeypatch):
    need("arm-none-eabi-gcc")
    need("qemu-system-arm")
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    names = {"__name__": "__main__"}
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)[:3]:
        exec(compile(block, str(PAGE), "exec"), names)
    program = next(
        block
        for block in re.findall(r"^```c\n(.*?)^```$", text, re.M | re.S)
        if "int main" in block
    )
    (tmp_path / "main.c").write_text(program)
    (tmp_path / "start.c").write_text(CORTEX_START)
    (tmp_path / "link.ld").write_text(CORTEX_LINK)
    command = ["arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb", "-Os"]
    command += ["--specs=rdimon.specs", "-nostartfiles", "-T", "link.ld"]
    run([*command, "-o", "main.elf", "start.c", "main.c", "model.c"], tmp_path)
    said = run(["qemu-system-arm", *QEMU_CORTEX], tmp_path)
    row = re.search(r"= \{([^}]*)\}", program)[1]
    rows = np.array([[int(number) for number in row.split(",")]], dtype=np.float32)
    fast = names["fast"]
    label, n_evaluated = fast.predict_counted(rows)
    # Integer sums may leave an exit point later than exact ones.
    found = re.fullmatch(r"class (\d+) after (\d+) of 100 trees", said.strip())
    assert int(found[1]) == label[0]
    assert n_evaluated[0] <= int(found[2]) <= 100


def test_the_commands_for_a_browser_build_a_module(tmp_path):
    need("clang")
    need("wasm-ld")
    from strategies import random_forest

    spinney.export_c(random_forest(0), tmp_path / "model.c")
    text = PAGE.read_text(encoding="utf-8")
    command = re.search(r"^\$ (clang .*?model\.c)$", text, re.M | re.S)[1]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    assert (tmp_path / "model.wasm").read_bytes().startswith(b"\0asm")
