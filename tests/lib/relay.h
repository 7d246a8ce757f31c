/* SPDX-License-Identifier: Apache-2.0 */
/* A cable between a dialer and a listener on loopback that a test can cut, hold at a byte, slow down, or make lose segments. Each
 * connection to the relay's port is one to the listener's; what it carries is counted and not looked at.
 *
 * On a clock that stands still nothing is sent but what a request needs, so the same request comes to the same byte each time: a test
 * holds a connection in the middle of a prompt by its number of bytes. One thread of its own; any thread may call. */
#ifndef TEST_RELAY_H
#define TEST_RELAY_H

#include <stdbool.h>
#include <stdint.h>

enum { RELAY_THERE, RELAY_BACK }; /* from who dialed; to him */
#define RELAY_OPEN UINT64_MAX

typedef struct relay relay;
relay *relay_start(uint16_t to_port); /* NULL: it could not be made */
void relay_end(relay *);
uint16_t relay_port(const relay *);
void relay_to(relay *, uint16_t to_port); /* of connections from now on */

/** Silence: nothing passes either way and nobody is told; false: what waited goes on. */
void relay_cut(relay *, bool cut);
/** What was there to be passed on before this was called is passed on. */
void relay_round(relay *);
/** Bytes that were sent to the relay this way, whether they went on or not. */
uint64_t relay_came(relay *, int way);
/** Bytes that went this way so far, of all connections. */
uint64_t relay_bytes(relay *, int way);
/** No more than this goes this way, all in all; RELAY_OPEN: no limit. */
void relay_hold_at(relay *, int way, uint64_t bytes);
/** The limit was reached and more is waiting. */
bool relay_is_held(relay *, int way);

typedef struct relay_pace {
    uint32_t piece;   /* bytes that go at once */
    uint32_t each;    /* of so many pieces one comes late */
    int64_t late_us;  /* by so much, by the clock of base */
    uint32_t n_steps; /* pieces that come late; then the cable is as it was */
} relay_pace;
/** From now on the clock is moved before a late piece goes this way; the next one waits until something came back after it. */
void relay_slow(relay *, int way, const relay_pace *);
uint32_t relay_steps_left(relay *);

#endif
