/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the room: the lock of a state folder. */
#ifndef AQ_MEMBER_PRIV_H
#define AQ_MEMBER_PRIV_H

#include "trust-priv.h"

/** Take the lock of dir: BUSY, naming who holds it, when another process has it. */
int aq_lock_take(const char *dir, int *ret_fd, aq_err *) AQ_MUST;
int aq_lock_busy(const aq_holder *, aq_err *) AQ_MUST; /* that error */
/** Who has it and where it listens, for others to read. */
int aq_lock_say(int fd, uint16_t port, const char *socket, aq_err *) AQ_MUST;
/** 1 and who has the lock, or 0. Takes nothing. */
int aq_lock_read(const char *dir, aq_holder *ret, aq_err *) AQ_MUST;
const char *aq_trust_dir(const aq_trust *);

#endif
