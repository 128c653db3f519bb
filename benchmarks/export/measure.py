"""Compile, run and weigh what exporters have written."""

from __future__ import annotations

import re
import resource
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.export.exporters import Written, typed

# Reads all rows, predicts them one at a time, and keeps the quickest of many rounds for
# every hundred rows: others may be busy on the machine, and none of them makes code
# faster. A hundred rows take less time than a process is given at a time.
TIMER = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#ifdef __cplusplus
extern "C"
#endif
int answer(const {row} *row);
int main(int argc, char **argv) {{
    static double best[{n_rows} / 100 + 1];
    size_t n = {n_rows}, i, first;
    int round;
    double sum = 0;
    {row} *rows = ({row} *)malloc(sizeof({row}) * n * {n_features});
    unsigned char *classes = (unsigned char *)malloc(n);
    FILE *file = fopen("rows.bin", "rb");
    if (argc > 1 || !file) {{
        return 1;
    }}
    if (fread(rows, sizeof({row}), n * {n_features}, file) != n * {n_features}) {{
        return 1;
    }}
    for (round = 0; round < {rounds}; round++) {{
        for (first = 0; first < n; first += 100) {{
            struct timespec a, b;
            double time;
            clock_gettime(CLOCK_MONOTONIC, &a);
            for (i = first; i < n && i < first + 100; i++) {{
                classes[i] = (unsigned char)answer(rows + i * {n_features});
            }}
            clock_gettime(CLOCK_MONOTONIC, &b);
            time = (double)(b.tv_sec - a.tv_sec) * 1e9;
            time += (double)(b.tv_nsec - a.tv_nsec);
            if (round == 0 || time < best[first / 100]) {{
                best[first / 100] = time;
            }}
        }}
    }}
    for (first = 0; first < n; first += 100) {{
        sum += best[first / 100];
    }}
    fwrite(classes, 1, n, stdout);
    fprintf(stderr, "%.2f", sum / (double)n);
    return argv[0] == 0;
}}
"""
# Nothing but the call; compared with a program that does not call.
DEVICE = """
#include <stdint.h>
int answer(const {row} *row);
volatile {row} row[{n_features}];
volatile int result;
int main(void) {{
    result = {call};
    return 0;
}}
void _exit(int code) {{ (void)code; for (;;) {{ }} }}
"""
# SysTick counts the 25 MHz of the board; with -icount shift=0 an instruction takes one
# nanosecond, so that a tick is forty instructions.
COUNTER = """
#include <stdint.h>
#include <stdio.h>
#include "rows.h"
int answer(const {row} *row);
#define CONTROL (*(volatile uint32_t *)0xE000E010)
#define RELOAD (*(volatile uint32_t *)0xE000E014)
#define NOW (*(volatile uint32_t *)0xE000E018)
int main(void) {{
    uint32_t total = 0;
    int i, sum = 0;
    RELOAD = 0xFFFFFF;
    NOW = 0;
    CONTROL = 5;
    for (i = 0; i < N_ROWS; i++) {{
        uint32_t begin = NOW;
        sum += answer(rows + i * {n_features});
        total += (begin - NOW) & 0xFFFFFF;
    }}
    printf("%lu %d\\n", (unsigned long)total, sum);
    return 0;
}}
"""
TICK = 40  # instructions
LIMIT = 60  # seconds of computing, for compilers and emulators


def run(command: list[Any], folder: Path) -> Any:
    """Run a command, and stop with what it says if it fails."""
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT)),
    )
    out, complaint = process.communicate()
    if process.returncode:
        # A compiler is several processes, of which one was stopped.
        if b"terminated program" in complaint or process.returncode < 0:
            msg = f"{command[0]} was stopped after {LIMIT} seconds"
            raise RuntimeError(msg)
        msg = f"{command}: {complaint.decode(errors='replace')[-2000:]}"
        raise RuntimeError(msg)
    return subprocess.CompletedProcess(command, 0, out, complaint)


def includes(written: Written) -> list[str]:
    return [f"-I{folder}" for folder in written.include]


def build(written: Written, rows: Any, folder: Path, rounds: int = 60) -> None:
    """Compile the program that predicts rows and times them."""
    data = typed(rows, written.row_type)
    data.tofile(folder / "rows.bin")
    text = TIMER.format(
        row=written.row_type,
        n_rows=len(data),
        n_features=data.shape[1],
        rounds=rounds,
    )
    (folder / "timer.c").write_text(text, encoding="ascii")
    compiler = "g++" if any(s.endswith("cpp") for s in written.sources) else "gcc"
    run(
        [
            *(compiler, "-O2", *includes(written), "-o", "timer", "timer.c"),
            *(*written.sources, *written.objects, "-lm"),
        ],
        folder,
    )


def nanoseconds(folder: Path) -> tuple[float, Any]:
    """Return the time for a single row on this machine, and all predictions."""
    done = run([folder / "timer"], folder)
    return float(done.stderr), np.frombuffer(done.stdout, dtype=np.uint8)


def flash_bytes(written: Written, n_features: int, folder: Path, cpu: str) -> int:
    """Return the bytes of flash that the model adds to an empty program.

    What it needs from libraries, such as floating point in software, is part of it.
    """
    target = [f"-mcpu={cpu}", "-mthumb", "-Os", "-ffunction-sections"]
    target += ["-fdata-sections", "-Wl,--gc-sections", "--specs=nano.specs"]
    target += ["--specs=nosys.specs"]
    sizes = []
    for name, call in (
        ("with", f"answer((const {written.row_type} *)row)"),
        ("without", "row[0] > 0"),
    ):
        text = DEVICE.format(row=written.row_type, n_features=n_features, call=call)
        (folder / f"{name}.c").write_text(text, encoding="ascii")
        # The C driver compiles C++, too, and links no library for it.
        run(
            [
                *("arm-none-eabi-gcc", *target, *includes(written)),
                *("-o", f"{name}.elf", f"{name}.c", *written.sources, "-lm"),
            ],
            folder,
        )
        done = run(["arm-none-eabi-size", f"{name}.elf"], folder)
        text_size, data_size = done.stdout.decode().splitlines()[1].split()[:2]
        sizes.append(int(text_size) + int(data_size))
    return sizes[0] - sizes[1]


def instructions(written: Written, rows: Any, folder: Path) -> float:
    """Return the instructions for a row on a Cortex-M3, counted by qemu."""
    from export.targets import CORTEX_LINK, CORTEX_START, QEMU_CORTEX

    data = typed(rows, written.row_type)
    values = ", ".join(map(repr, data.ravel().tolist()))
    (folder / "rows.h").write_text(
        f"#define N_ROWS {len(data)}\n"
        f"static const {written.row_type} rows[] = {{{values}}};\n"
    )
    text = COUNTER.format(row=written.row_type, n_features=data.shape[1])
    (folder / "counter.c").write_text(text, encoding="ascii")
    (folder / "start.c").write_text(CORTEX_START, encoding="ascii")
    (folder / "link.ld").write_text(CORTEX_LINK, encoding="ascii")
    run(
        [
            *("arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb", "-O2"),
            *("--specs=rdimon.specs", "-nostartfiles", "-T", "link.ld"),
            *(*includes(written), "-o", "main.elf", "start.c", "counter.c"),
            *(*written.sources, "-lm"),
        ],
        folder,
    )
    done = run(["qemu-system-arm", "-icount", "shift=0", *QEMU_CORTEX], folder)
    found = re.match(rb"(\d+) (-?\d+)", done.stdout)
    assert found is not None
    return TICK * int(found[1]) / len(data)
