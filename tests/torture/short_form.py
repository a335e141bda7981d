"""Run the short form of a harness, of which all that is asked is a function `short(seed)`.

python -m tests.torture.short_form kills --seed 7
"""

from __future__ import annotations

import importlib
import sys

from tests.torture.harness import main

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    main(importlib.import_module(f"tests.torture.{name}").short, arguments=arguments)
