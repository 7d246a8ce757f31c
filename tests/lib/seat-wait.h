/* SPDX-License-Identifier: Apache-2.0 */
/* Seats in tests: waiting for a state, by its changes. */
#ifndef TEST_SEAT_WAIT_H
#define TEST_SEAT_WAIT_H

#include "aq/pool.h"

/** The changed_cb of each seat that is waited for. */
void seat_changed(void *user);
/** Until fn is true of the seat's state, which is put into st after each change; false when the hang limit was reached. */
bool seat_until(aq_seat *, aq_seat_state *st, bool (*fn)(const aq_seat_state *));

#endif
