"""Exported code on other processors: compiled by Debian's tools, run by emulators."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np

from export.native import ROW_TYPES, STRICT, need, write

# Rows as bit patterns: the same numbers whatever the byte order of a processor.
DRIVER = """
#include "m.h"
{io}
static const {bits} rows[{size}]{flash} = {{
    {values}
}};

int main(void) {{
    size_t i, f;
    {begin}
    for (i = 0; i < {n_rows}; i++) {{
        {row} row[{n_features}];
        int n_evaluated;
        for (f = 0; f < {n_features}; f++) {{
            union {{ {row} number; {bits} bits; }} both;
            both.bits = {read};
            row[f] = both.number;
        }}
        show(m_predict_counted(row, &n_evaluated));
        show(n_evaluated);
        {steps}
    }}
    {end}
    return 0;
}}
"""
STEPS = """{
            m_state state;
            m_start(&state, row);
            do {
                show(m_answer(&state));
            } while (m_step(&state));
            show(m_answer(&state));
        }"""
STDIO = """#include <stdio.h>
static void show(int number) { printf("%d\\n", number); }
"""
# On an AVR the console is a register; simavr prints what is written to it, line by
# line, and ends when the processor sleeps without interrupts.
AVR_IO = """#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/pgmspace.h>
#include <avr/sleep.h>
static void put(char c) {
    while (!(UCSR0A & (1 << UDRE0))) {
    }
    UDR0 = c;
}
static void show(int number) {
    char digits[6];
    unsigned char n = 0;
    if (number < 0) {
        put('-');
        number = -number;
    }
    do {
        digits[n++] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    while (n) {
        put(digits[--n]);
    }
    put('\\n');
}
"""
CORTEX_START = """
#include <stdlib.h>
extern int main(void);
extern void initialise_monitor_handles(void);
void reset(void);
void _fini(void);
void _fini(void) {
}
void reset(void) {
    initialise_monitor_handles();
    exit(main());
}
__attribute__((section(".vectors"), used))
static void *const vectors[16] = {(void *)0x20400000, (void *)reset};
"""
CORTEX_LINK = """
MEMORY {
    FLASH (rx) : ORIGIN = 0x00000000, LENGTH = 4M
    RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 3M
}
ENTRY(reset)
SECTIONS {
    .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) *(.ARM.ex*) } > FLASH
    .data : { *(.data*) } > RAM
    .bss : { *(.bss*) *(COMMON) } > RAM
    end = .;
}
"""
NODE = """
import { readFileSync } from 'node:fs';
import { WASI } from 'node:wasi';
const wasi = new WASI({ version: 'preview1' });
const code = await WebAssembly.compile(readFileSync(process.argv[2]));
wasi.start(await WebAssembly.instantiate(code, wasi.getImportObject()));
"""


def run(command, folder):
    """Run a command and return what it prints; the test fails if the command does."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-500:]}{done.stderr[-3000:]}"
    return done.stdout


def write_driver(obj, table, folder, *, io=STDIO, flash=False, **options):
    """Write code and a program that prints its answers; return (source, report)."""
    source, report = write(obj, folder, **options)
    forest = getattr(obj, "forest_", obj)
    input_type = options.get("input_type") or forest.input_dtype
    dtype = np.dtype(input_type)
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(table, dtype=dtype)
    unsigned = f"uint{8 * dtype.itemsize}"
    values = rows.view(unsigned).ravel().tolist()
    ending = "ull" if dtype.itemsize == 8 else "u"
    place = f"rows[{rows.shape[1]} * i + f]"
    reader = {1: "pgm_read_byte", 2: "pgm_read_word", 4: "pgm_read_dword"}
    read = f"{reader[dtype.itemsize]}(&{place})" if flash else place
    driver = DRIVER.format(
        io=io,
        bits=f"{unsigned}_t",
        size=len(values),
        flash=" PROGMEM" if flash else "",
        values=", ".join(f"{value}{ending}" for value in values),
        n_rows=len(rows),
        n_features=rows.shape[1],
        row=ROW_TYPES[input_type],
        read=read,
        begin="UCSR0B = 1 << TXEN0;" if flash else "",
        end="cli(); sleep_enable(); sleep_cpu();" if flash else "",
        steps=STEPS if "m_start" in source.header else "",
    )
    (folder / "main.c").write_text(driver, encoding="ascii")
    return source, report


def numbers(text):
    """Return the numbers that a program has printed."""
    return np.array([int(word) for word in text.split()])


def math(source):
    return ["-lm"] if source.needs_math else []


# ------------------------------------------------------------------ targets


def native(compiler, *flags):
    """Return how to build and run with a compiler of this machine."""

    def answers(obj, table, folder, **options):
        need(compiler)
        source, _ = write_driver(obj, table, folder, **options)
        command = [compiler, *STRICT, *flags, "-o", "main", "main.c", "m.c"]
        run([*command, *math(source)], folder)
        return numbers(run([folder / "main"], folder))

    return answers


def as_cpp(compiler):
    """Return how to build and run the same files as C++."""

    def answers(obj, table, folder, **options):
        need(compiler)
        source, _ = write_driver(obj, table, folder, **options)
        strict = ["-std=c++11", "-x", "c++", *STRICT[1:]]
        command = [compiler, *strict, "-O1", "-o", "main", "main.c", "m.c"]
        run([*command, *math(source)], folder)
        return numbers(run([folder / "main"], folder))

    return answers


def linux(processor, *flags):
    """Return how to build for another processor, and run under qemu-user."""

    def answers(obj, table, folder, **options):
        compiler = need(f"{processor}-linux-gnu-gcc")
        emulator = need(f"qemu-{processor}")
        source, _ = write_driver(obj, table, folder, **options)
        command = [compiler, *STRICT, "-O2", *flags, "-static", "-o", "main"]
        run([*command, "main.c", "m.c", *math(source)], folder)
        return numbers(run([emulator, folder / "main"], folder))

    return answers


def build_cortex(folder, source, cpu="cortex-m3", extra=()):
    """Build the program of a folder for a Cortex-M."""
    compiler = need("arm-none-eabi-gcc")
    (folder / "start.c").write_text(CORTEX_START, encoding="ascii")
    (folder / "link.ld").write_text(CORTEX_LINK, encoding="ascii")
    target = [f"-mcpu={cpu}", "-mthumb", "-O2"]
    run([compiler, *STRICT, *target, "-c", "m.c", *extra], folder)
    command = [compiler, *target, "--specs=rdimon.specs", "-nostartfiles"]
    command += ["-T", "link.ld", "-o", "main.elf", "start.c", "main.c", "m.o"]
    run([*command, *math(source)], folder)


QEMU_CORTEX = ("-M", "mps2-an385", "-nographic", "-semihosting-config")
QEMU_CORTEX += ("enable=on,target=native", "-kernel", "main.elf")


def cortex(obj, table, folder, **options):
    """Build for a Cortex-M3 and run under qemu with semihosting."""
    emulator = need("qemu-system-arm")
    source, _ = write_driver(obj, table, folder, **options)
    build_cortex(folder, source)
    return numbers(run([emulator, *QEMU_CORTEX], folder))


def avr(obj, table, folder, **options):
    """Build for an ATmega2560 and run under simavr."""
    compiler, emulator = need("avr-gcc"), need("simavr")
    write_driver(obj, table, folder, io=AVR_IO, flash=True, **options)
    strict = [flag for flag in STRICT if flag != "-Wpedantic"]
    run([compiler, "-mmcu=atmega2560", *strict, "-O2", "-c", "m.c"], folder)
    command = [compiler, "-mmcu=atmega2560", "-std=gnu99", "-O2", "-o", "main.elf"]
    run([*command, "main.c", "m.o"], folder)
    done = subprocess.run(
        [emulator, "-m", "atmega2560", "-f", "16000000", "main.elf"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    # Each line comes in green, with a mark for its end.
    return numbers(" ".join(re.findall(r"\x1b\[32m(-?\d+)\.", done.stderr)))


def wasm(obj, table, folder, **options):
    """Build for WebAssembly and run under node."""
    compiler, runner = need("clang"), need("node")
    need("wasm-ld")
    if not Path("/usr/lib/wasm32-wasi").exists():
        import pytest

        pytest.skip("wasi-libc is not installed")
    source, _ = write_driver(obj, table, folder, **options)
    command = [compiler, "--target=wasm32-wasi", "--sysroot=/usr", *STRICT, "-O2"]
    command += ["-isystem", "/usr/include/wasm32-wasi", "-L/usr/lib/wasm32-wasi"]
    run([*command, "-o", "main.wasm", "main.c", "m.c", *math(source)], folder)
    (folder / "run.mjs").write_text(NODE, encoding="ascii")
    return numbers(run([runner, "--no-warnings", "run.mjs", "main.wasm"], folder))


TARGETS = {
    "gcc": native("gcc", "-O3"),
    "gcc sanitizers": native(
        "gcc", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover"
    ),
    "clang": native("clang", "-O2"),
    "clang sanitizers": native(
        "clang", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover"
    ),
    "tcc": native("tcc"),
    "g++": as_cpp("g++"),
    "clang++": as_cpp("clang++"),
    "aarch64": linux("aarch64"),
    "riscv64": linux("riscv64"),
    "s390x": linux("s390x"),
    "cortex-m": cortex,
    "wasm": wasm,
}
