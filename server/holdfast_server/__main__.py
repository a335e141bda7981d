"""Let `python -m holdfast_server` be the `holdfast` command."""

import sys

from holdfast_server.cli.main import main

sys.exit(main())
