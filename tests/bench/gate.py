# SPDX-License-Identifier: Apache-2.0
"""What gates that measure a model have in common: their command line, and the end when nothing can be measured."""
import glob
import os
import statistics
import sys

NAME = os.path.splitext(os.path.basename(sys.argv[0]))[0]


def cannot(why):
    print('%s: %s' % (NAME, why), file=sys.stderr)
    sys.exit(2)


def options(doc, numbers, texts=None, most=1):
    """--NAME NUMBER into numbers, --NAME TEXT into the list texts[NAME]; returns the models, at most `most`: without any SmolLM2 of ./dev model."""
    models, args = [], sys.argv[1:]
    while args:
        a = args.pop(0)
        if texts and a[2:] in texts and a.startswith('--') and args:
            texts[a[2:]].append(args.pop(0))
        elif a[2:] in numbers and a.startswith('--') and args and args[0].isdigit():
            numbers[a[2:]] = int(args.pop(0))
        elif a.startswith('-') or len(models) == most:
            cannot(doc.split('\n\n')[1])
        else:
            models.append(a)
    models = models or sorted(glob.glob(os.path.join(os.environ.get('AQ_MODEL_DIR', ''), 'SmolLM2*.gguf')))[:1]
    return models or cannot('no model: ./dev model fetches one')


def mid(v, form='%.2f'):
    return ('%s (%s .. %s)' % ((form,) * 3)) % (statistics.median(v), min(v), max(v))
