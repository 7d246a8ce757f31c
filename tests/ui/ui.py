#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The window, driven by AT-SPI with the real engine and the guide model. TAP.

usage: ui.py SCENARIO AQUIFER GUIDE SOURCE GATE: the program, the guide model, the checkout, the library of gate.c. Run by
tools/dev/headless.sh. A scenario is a function of one of the files below.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'data'))
import of_window  # noqa: E402
import of_models  # noqa: E402
import of_chats  # noqa: E402
import of_text  # noqa: E402
import of_network  # noqa: E402
import of_looks  # noqa: E402
import of_keys  # noqa: E402
from scene import MODELS, SCENARIO, apps, tap  # noqa: E402


def main():
    os.makedirs(MODELS)
    scenario = next(s for s in (getattr(f, SCENARIO, None) for f in (of_window, of_models, of_chats, of_text, of_network, of_looks, of_keys)) if s)
    try:
        scenario()
    except Exception as e:  # pylint: disable=broad-except
        tap.ok(False, SCENARIO + ' came to its end', '%s: %s' % (type(e).__name__, e))
        for app in apps:
            for line in app.messages().splitlines()[-20:]:
                print('# app: ' + line)
    finally:
        for app in apps:
            app.kill()
    return tap.done()


if __name__ == '__main__':
    sys.exit(main())
