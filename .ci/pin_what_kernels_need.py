"""Pin in the metadata of an unpacked wheel what the kernels in it were compiled with.

Called by `wheel-with-kernels` with the folder `spinney-VERSION.dist-info` and the
Python that has compiled them. Machine code is found again only with the very versions
of Python, Numba, llvmlite and NumPy that made it: with others the wheel would work, but
compile everything anew.
"""

import platform
import re
import sys
from importlib.metadata import version
from pathlib import Path
from sysconfig import get_platform

folder = Path(sys.argv[1])
pinned = {name: version(name) for name in ("numba", "llvmlite", "numpy")}

metadata = folder / "METADATA"
text = metadata.read_text()
for name, number in pinned.items():
    text = re.sub(rf"^Requires-Dist: {name}\b[^;\n]*\n", "", text, flags=re.MULTILINE)
    requirement = f"Requires-Dist: {name}=={number}\n"
    text = text.replace("Requires-Python:", requirement + "Requires-Python:", 1)
exactly = f"Requires-Python: =={platform.python_version()}"
text = re.sub(r"^Requires-Python: .*$", exactly, text, flags=re.MULTILINE)
metadata.write_text(text)

tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
system = re.sub(r"[-.]", "_", get_platform())
wheel = folder / "WHEEL"
text = re.sub(r"^Tag: .*$", f"Tag: {tag}-none-{system}", wheel.read_text(), flags=re.M)
wheel.write_text(text.replace("Root-Is-Purelib: true", "Root-Is-Purelib: false"))
