/* SPDX-License-Identifier: Apache-2.0 */
/* What this PC is, as the kernel tells it: for people to see, not for decisions. Any thread; reads a few small files.
 *
 * root: "" for this PC; a folder that stands in for / in tests. */
#pragma once

#include <glib.h>

/** The processor's name, or NULL where the kernel has none (64-bit Arm). */
char *aq_hardware_cpu(const char *root);
/** 0 when it cannot be told. */
guint64 aq_hardware_memory_bytes(const char *root);
/** Graphics cards on the PCI bus by name, with or without a driver; the list may be empty. */
char **aq_hardware_gpus(const char *root);
