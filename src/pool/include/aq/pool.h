/* SPDX-License-Identifier: Apache-2.0 */
/* The pool: PCs of one household that trust each other. What api, app and tools see of it.
 *
 * Words. Identity: this PC's key pair and certificate. Id: SHA-256 of the certificate's public key.
 * Pool: PCs that share a secret. Roster: its members, authenticated under the secret. Epoch: of the
 * secret; removing a member raises it.
 *
 * Threads: every function here may be called from any thread. Errors: >= 0 or -AQ_E_*; `ret_*` are
 * untouched on failure. Secrets are wiped, compared in constant time, and never logged. */
#ifndef AQ_POOL_H
#define AQ_POOL_H

#include "aq/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

#define AQ_POOL_PORT 7710
#define AQ_POOL_SERVICE "_aquifer._tcp"

#define AQ_SECRET_BYTES 32u
#define AQ_NAME_MAX 64u    /* bytes of a PC's name */
#define AQ_MEMBERS_MAX 64u /* members of a pool, this PC among them */
#define AQ_ADDRS_MAX 8u    /* remembered addresses of a member */
#define AQ_ADDR_MAX 63u    /* bytes of one: "192.168.1.7:7710", "[fe80::1%eth0]:7710" */

typedef struct aq_id {
    uint8_t b[32];
} aq_id;
static inline bool aq_id_equal(const aq_id *a, const aq_id *b)
{
    return memcmp(a->b, b->b, sizeof a->b) == 0;
}

/* ---- secrets: kept by whoever the program says ----------------------------------------------- */

/** name is "identity-key" or "pool-secret". load: the bytes into ret and their number, 0 when there
 * are none; LIMIT when they are more than cap. save: replaces all at once, n 0 forgets. */
typedef struct aq_secret_store {
    void *self;
    int (*load)(void *self, const char *name, uint8_t *ret, size_t cap, size_t *ret_n, aq_err *);
    int (*save)(void *self, const char *name, const uint8_t *p, size_t n, aq_err *);
} aq_secret_store;
#define AQ_SECRET_FILE_MAX 4096u

/* ---- trust: identity, pool secret and roster of this PC, as files of one folder -------------- */

/** What a member may do to this PC. */
enum {
    AQ_PERM_REQUESTS = 1,
    AQ_PERM_LAYERS = 2,
    AQ_PERM_EXPERTS = 4,
    AQ_PERM_FILES = 8,
    AQ_PERM_ALL = 15,
};
#define AQ_PERM_DEFAULT (AQ_PERM_REQUESTS | AQ_PERM_LAYERS)

typedef struct aq_member {
    aq_id id;
    uint32_t perms;
    uint32_t n_addr;
    char name[AQ_NAME_MAX + 1];
    char addr[AQ_ADDRS_MAX][AQ_ADDR_MAX + 1]; /* last one that answered first */
    char extra[256];                          /* words of a later version, kept */
} aq_member;
typedef struct aq_roster {
    uint8_t pool[16];
    uint32_t epoch, n;
    uint64_t version;
    aq_member m[AQ_MEMBERS_MAX]; /* by id, ascending */
} aq_roster;

typedef struct aq_trust aq_trust;
/** Open the state of folder dir (made 0700 when missing); key and certificate are made at first
 * use, once, whoever else opens it at that time. name: of a PC that was given none (aq_trust_set_name, which is kept).
 * store NULL: 0600 files of that folder. Errors: IO; AUTH (a secret file that others may read,
 * a key that is lost); FORMAT (damaged, or of a later version). */
int aq_trust_open(const char *dir, const char *name, const aq_secret_store *store, aq_trust **ret,
                  aq_err *) AQ_MUST;
void aq_trust_free(aq_trust *);
AQ_CLEANUP_FUNC(aq_trust *, aq_trust_free)
const aq_id *aq_trust_id(const aq_trust *);
void aq_trust_name(const aq_trust *, char ret[AQ_NAME_MAX + 1]);
int aq_trust_set_name(aq_trust *, const char *name, aq_err *) AQ_MUST;
/** 1 and a copy of the roster (this PC included), or 0 when in no pool. ret may be NULL. */
int aq_trust_roster(const aq_trust *, aq_roster *ret);
/** Permissions of a member on this PC, -1 when it is none. */
int aq_trust_perms(const aq_trust *, const aq_id *);
int aq_trust_set_perms(aq_trust *, const aq_id *, uint32_t perms, aq_err *) AQ_MUST;
/** Put an address that answered first. */
int aq_trust_set_addr(aq_trust *, const aq_id *, const char *addr, aq_err *) AQ_MUST;
/** A new pool with this PC in it. BUSY when in one already. */
int aq_trust_create(aq_trust *, aq_err *) AQ_MUST;
int aq_trust_add(aq_trust *, const aq_member *, aq_err *) AQ_MUST;
/** Forget a member and raise the secret's epoch. Links that are open stay open: close those to the
 * member, and the others too, so that they come back and are given the new secret. INVAL: this PC itself (leave instead), or none. */
int aq_trust_remove(aq_trust *, const aq_id *, aq_err *) AQ_MUST;
/** Leave the pool: secret and roster are forgotten, the identity stays. */
int aq_trust_leave(aq_trust *, aq_err *) AQ_MUST;

/** What this PC shows to programs over TLS: a certificate of its identity's key, for its names, its addresses and `name` [n], and the
 * key behind it, as PEM ended by NUL (the caller wipes it). ret_path: the certificate alone, for programs to trust; the file stays the
 * same as long as it holds all names. Errors: IO, NOMEM. */
int aq_trust_server_cert(const aq_trust *, const char *const *name, uint32_t n, aq_bytes *ret_pem,
                         char *ret_path, size_t cap, aq_err *) AQ_MUST;

/** The pool's secret for a PC without a screen: 14 groups of 4 letters. AUTH when in no pool. The
 * caller wipes it. */
#define AQ_SECRET_TEXT_MAX 70u
int aq_trust_secret_text(const aq_trust *, char ret[AQ_SECRET_TEXT_MAX], aq_err *) AQ_MUST;
/** FORMAT when a letter is wrong; case, spaces and dashes do not matter. */
int aq_secret_from_text(const char *text, uint8_t ret[AQ_SECRET_BYTES], aq_err *) AQ_MUST;
void aq_secret_to_text(const uint8_t secret[AQ_SECRET_BYTES], char ret[AQ_SECRET_TEXT_MAX]);

/* ---- one process at a time ------------------------------------------------------------------- */

/** This process alone changes this PC's pool, until trust is freed: takes the lock of the state
 * folder and reads its files again, which another process may have changed since they were opened.
 * BUSY names the process that has it. Who does not hold it only reads. */
int aq_trust_hold(aq_trust *, aq_err *) AQ_MUST;
/** The holder listens on this port; for others to see. */
int aq_trust_hold_port(aq_trust *, uint16_t port, aq_err *) AQ_MUST;
typedef struct aq_holder {
    uint32_t pid;  /* 0: it has not said yet */
    uint16_t port; /* on which it listens, 0: none */
    char name[AQ_NAME_MAX + 1];
    char socket[108]; /* where it takes calls (aq_call), "" = nowhere */
} aq_holder;
/** Who does not hold it reads the files again, which another process may have changed. */
int aq_trust_refresh(aq_trust *, aq_err *) AQ_MUST;
/** 1 and who holds the lock, or 0. */
int aq_trust_holder(const aq_trust *, aq_holder *ret, aq_err *) AQ_MUST;

/** Addresses that a person typed in: of PCs of which nothing else is known. */
#define AQ_KNOWN_MAX 64u
typedef struct aq_known {
    uint32_t n;
    char addr[AQ_KNOWN_MAX][AQ_ADDR_MAX + 1];
} aq_known;
int aq_known_load(const aq_trust *, aq_known *ret, aq_err *) AQ_MUST;
/** Hold the trust first. ret is the address as it is kept, with its port. INVAL; AUTH (not of this
 * network); LIMIT. */
int aq_known_add(aq_trust *, const char *addr, char ret[AQ_ADDR_MAX + 1], aq_err *) AQ_MUST;
/** 1, or 0 when it was not there. */
int aq_known_drop(aq_trust *, const char *addr, aq_err *) AQ_MUST;

/* ---- reach: what became of calling an address ------------------------------------------------ */

/** Most telling last. */
typedef enum aq_reach {
    AQ_REACH_UNTRIED,
    AQ_REACH_FOREIGN,  /* not an address of this network: not called */
    AQ_REACH_NO_ROUTE, /* this PC is on no network that leads there */
    AQ_REACH_SILENT,   /* no answer in time: off, asleep, or a firewall that drops */
    AQ_REACH_BLOCKED,  /* a firewall said no, or nobody has the address */
    AQ_REACH_REFUSED,  /* the PC is there and nothing listens: its Pool is off */
    AQ_REACH_ANSWERS,
    AQ_REACH_N
} aq_reach;
const char *aq_reach_text(aq_reach); /* untranslated sentence */
const char *aq_reach_name(aq_reach); /* one word for programs */

/** Call these addresses side by side and hang up: the most telling of what became of it. Blocks,
 * timeout_us at most. */
aq_reach aq_reach_try(const char *const *addr, uint32_t n, int64_t timeout_us);

/* ---- pairing by six digits ------------------------------------------------------------------- */

typedef struct aq_meet aq_meet;
typedef struct aq_meet_cfg {
    aq_trust *trust; /* borrowed, and held by this process (aq_trust_hold) */
    const char *app; /* "aquifer 0.1.0" */
    bool wait;       /* listen until a PC calls; else call one */
    /* Call: where that PC may be, 1 to AQ_ADDRS_MAX. Wait: where to listen, 0 = all addresses of this
     * PC that a pool may use. */
    const char *const *addr;
    uint32_t n_addr;
    uint16_t port; /* wait: 0 = any */
    /* The six digits are on the screen of both now. A link's thread. */
    void (*digits_cb)(void *user, const char digits[7], const char *name);
    /* The end, once: err->code 0 = paired with id. A link's thread. */
    void (*done_cb)(void *user, const aq_err *err, const aq_id *id);
    void *user;
} aq_meet_cfg;
/** Returns at once. Errors: IO (port in use, no network), AUTH (an address that is not of this
 * network), INVAL, NOMEM. */
int aq_meet_new(const aq_meet_cfg *, aq_meet **ret, aq_err *) AQ_MUST;
/** Ends it when it is not over; done_cb may come before this returns. Not from a callback. */
void aq_meet_free(aq_meet *);
AQ_CLEANUP_FUNC(aq_meet *, aq_meet_free)
uint16_t aq_meet_port(const aq_meet *); /* on which it listens, 0 = it does not */
/** They Match, or They Differ. Any thread; once, after digits_cb. */
void aq_meet_answer(aq_meet *, bool match);
/** After done_cb said "paired": can the other PC be called from here, and (where it has said so, else UNTRIED) this one from
 * there? Who only calls listens nowhere. */
void aq_meet_reach(aq_meet *, aq_reach *ret_out, aq_reach *ret_in);

/* ---- presence: which PCs of this network have their Pool on ---------------------------------- */

#define AQ_FOUND_MAX 64u
#define AQ_VERSION_MAX 31u /* bytes of a program's version */

typedef enum aq_presence_state {
    AQ_PRESENCE_OFF,       /* there is no aq_presence: no thread, no socket, nothing published */
    AQ_PRESENCE_STARTING,  /* the daemon is being asked */
    AQ_PRESENCE_RUNNING,   /* published (with a port), and looking for others */
    AQ_PRESENCE_NO_DAEMON, /* no Avahi daemon, or no system bus; goes on by itself when it comes */
    AQ_PRESENCE_REFUSED,   /* the daemon publishes for no program; others are still found */
    AQ_PRESENCE_TWIN,      /* another PC of this network has this one's identity */
    AQ_PRESENCE_PORT_USED, /* the listener could not have its port; others are still found */
    AQ_PRESENCE_FAILED,    /* another error of the daemon (detail); tried again by itself */
    AQ_PRESENCE_NO_BUILD,  /* this build has no mDNS */
    AQ_PRESENCE_N
} aq_presence_state;
/** One sentence: what it means and what to do. Untranslated. */
const char *aq_presence_text(aq_presence_state);
const char *aq_presence_name(aq_presence_state); /* one word for programs */

typedef struct aq_presence_opts {
    aq_id id;
    const char *name;    /* of this PC, for people; copied */
    const char *version; /* of the program; copied */
    uint16_t port;       /* where the Pool listens; 0: nowhere, so nothing is published */
    uint16_t port_used;  /* the port that it could not have, 0: none */
} aq_presence_opts;

/** A PC that says it has its Pool on. All of it is unproved: a hint for whom to call. */
typedef struct aq_found {
    aq_id id;
    uint32_t n_addr;
    char name[AQ_NAME_MAX + 1];
    char version[AQ_VERSION_MAX + 1];
    char addr[AQ_ADDRS_MAX][AQ_ADDR_MAX + 1]; /* of all interfaces, IPv4 and IPv6; nearest first */
} aq_found;

typedef struct aq_presence_info {
    aq_presence_state state;
    uint16_t port;    /* of PORT_USED, else the published one */
    uint32_t n_found; /* PCs */
    char detail[96];  /* the daemon's words, "" when there are none */
} aq_presence_info;

typedef struct aq_presence aq_presence;
/** Publish this PC and look for others, until it is freed. Returns at once; the daemon is asked on a
 * thread of its own. changed_cb (may be NULL) comes from that thread after the state or the found PCs
 * changed, with no lock of this room's held; it may call aq_presence_get and _found, but not _set and
 * _free. Without mDNS in the build it succeeds and its state says so. Errors: NOMEM, IO, INVAL (no
 * name). */
int aq_presence_start(const aq_presence_opts *, void (*changed_cb)(void *user), void *user,
                      aq_presence **ret, aq_err *) AQ_MUST;
/** Say goodbye, end the thread. May wait for an answer of the daemon. */
void aq_presence_free(aq_presence *);
AQ_CLEANUP_FUNC(aq_presence *, aq_presence_free)
/** Another name or port; the id stays. Does not wait. */
int aq_presence_set(aq_presence *, const aq_presence_opts *, aq_err *) AQ_MUST;
void aq_presence_get(const aq_presence *, aq_presence_info *ret); /* NULL: OFF */
/** Copies of what is found now, this PC not among them, by id; their number, at most cap. A PC that
 * is not here may well be alive, and one that is here may be gone: liveness is the links' heartbeat.
 */
uint32_t aq_presence_found(const aq_presence *, aq_found *ret, uint32_t cap);

/* ---- layers over two PCs --------------------------------------------------------------------- */

/** A PC that computes layers for another one: a listener and a worker. It has no requests of its
 * own, keeps its layers loaded between coordinators, and works for one at a time. */
typedef struct aq_node aq_node;
typedef struct aq_node_cfg {
    aq_rt *rt; /* borrowed, as is trust */
    aq_trust *trust;
    const char *app;        /* "aquifer 0.1.0" */
    const char *backend;    /* NULL = the best there is */
    const char *const *dir; /* where models are looked for: folders, or files */
    uint32_t n_dir;
    const char *const *bind; /* addresses to listen on; "127.0.0.1" */
    uint32_t n_bind;         /* 0 = all of this PC that a pool may use */
    uint16_t port;           /* 0 = any */
    bool join;               /* PCs that know the pool's secret may join here */
} aq_node_cfg;
/** Errors: IO (port in use), AUTH (an address that is not of this network), INVAL, NOMEM. */
int aq_node_new(const aq_node_cfg *, aq_node **ret, aq_err *) AQ_MUST;
void aq_node_free(aq_node *);
AQ_CLEANUP_FUNC(aq_node *, aq_node_free)
uint16_t aq_node_port(const aq_node *);
/** Join the pool of the PC at addr, whose secret was typed in. Blocks, 5 s at most. Errors: AUTH (a wrong
 * secret), BUSY (joining is not open there), GONE, TIMEOUT. */
int aq_node_join(aq_node *, const char *addr, const uint8_t secret[AQ_SECRET_BYTES],
                 aq_err *) AQ_MUST;
typedef struct aq_node_state {
    bool loaded;
    uint32_t l0, l1;           /* layers [l0, l1) when loaded */
    uint64_t n_load, n_window; /* times that weights were read; windows computed */
    char who[AQ_NAME_MAX + 1]; /* who it works for, "" = nobody */
    uint32_t n_fault;          /* errors of its own, after which it began anew 3 to 60 s later */
    char fault[256];           /* the last one in words, "" = none yet */
} aq_node_state;
void aq_node_get_state(aq_node *, aq_node_state *ret);

/** One model over this PC and another: layers [0, cut) here, the rest there. */
typedef struct aq_split aq_split;
typedef struct aq_split_cfg {
    aq_rt *rt; /* borrowed, as are trust, model and src */
    aq_trust *trust;
    const aq_model *model;
    const aq_wsrc *src;
    const char *app;
    const aq_id *to;         /* the other PC; NULL = whoever of the pool answers */
    const char *const *addr; /* where it may be: "192.168.1.7:7710" */
    uint32_t n_addr;         /* 1 .. AQ_ADDRS_MAX */
    uint32_t
        cut; /* layers here; 0 = by the free memory of both: half, or next to it where both fit */
    const char *rows;     /* how rows travel: "f32" (exact, also NULL), "f16", "bf16" */
    aq_engine_cfg engine; /* stage, n_stage are not looked at; n_page 0 = n_parallel full chats */
    uint32_t
        alone_after_ms; /* the other PC is lost for so long: all layers here, if they fit; 0 = never */
    void (*change_cb)(void *user); /* state changed; any thread, must not block; may be NULL */
    void *user;
} aq_split_cfg;
/** Connect, load on both PCs, start. Blocks while loading; cfg->engine.progress (may be NULL) counts this
 * PC's bytes, its cancel ends it. Errors name the PC: BUSY (whom it works for), MISMATCH (no such file
 * there), NOMEM (both numbers), GONE, AUTH, PROTO, INVAL (no cut there). */
int aq_split_open(const aq_split_cfg *, aq_split **ret, aq_err *) AQ_MUST;
void aq_split_free(aq_split *); /* its engine too */
AQ_CLEANUP_FUNC(aq_split *, aq_split_free)
aq_engine *aq_split_engine(const aq_split *); /* lives as long as the split */
enum {
    AQ_SPLIT_RUNNING = 1,
    AQ_SPLIT_LOST,  /* the other PC is gone: replies pause and go on when it is back */
    AQ_SPLIT_ALONE, /* all layers here meanwhile */
};
typedef struct aq_split_state {
    uint32_t kind, cut, n_layer, n_loss;         /* n_loss: times that the other PC was lost */
    char pc[AQ_NAME_MAX + 1];                    /* the other PC's name */
    char addr[AQ_ADDR_MAX + 1];                  /* where it answered, "" when it is lost */
    char text[500];                              /* LOST, ALONE: why, in words */
    uint64_t load_done, load_total;              /* bytes that the other PC loads now */
    uint64_t n_window, n_row, worker_us, net_us; /* since it was connected last */
    uint64_t tx_bytes, rx_bytes, tx_frames, rx_frames; /* at the socket */
} aq_split_state;
void aq_split_get_state(aq_split *, aq_split_state *ret);

/* ---- which PCs there are, and where ------------------------------------------------------------ */

#define AQ_PCS_MAX (AQ_MEMBERS_MAX + AQ_FOUND_MAX + AQ_KNOWN_MAX)
enum {
    AQ_PC_UNASKED,
    AQ_PC_HERE,    /* it answered and proved who it is (a member), or it answers (another) */
    AQ_PC_TROUBLE, /* why */
};
typedef struct aq_pc {
    aq_id id;                                /* when has_id */
    bool has_id, self, member, found, added; /* added: an address that was typed in */
    uint32_t perms, n_addr;
    char name[AQ_NAME_MAX + 1];               /* "" = not known */
    char version[AQ_VERSION_MAX + 1];         /* "" = not found by mDNS */
    char addr[AQ_ADDRS_MAX][AQ_ADDR_MAX + 1]; /* found ones first, then those that answered */
    /* What it said last; of an aq_seat that watches. */
    uint32_t state;                  /* AQ_PC_* */
    aq_err why;                      /* TROUBLE: in words, with its name */
    uint64_t mem_bytes;              /* free for layers */
    int64_t rtt_us;                  /* of the last question, 0 = none */
    char works_for[AQ_NAME_MAX + 1]; /* whose layers it computes, "" = nobody's */
} aq_pc;
/** Members (this PC first), then found ones, then typed-in addresses that are none of theirs. found [n]; ret
 * [AQ_PCS_MAX], all UNASKED; their number. Errors: FORMAT, IO (the file of addresses), NOMEM. */
int aq_pcs_list(const aq_trust *, const aq_found *found, uint32_t n, aq_pc *ret, aq_err *) AQ_MUST;

/** Look for PCs by mDNS until is_it (may be NULL) says so of one, or `ms` passed; it is asked again whenever
 * something changed. state_only: until the daemon answered. version: of the program. ret [AQ_FOUND_MAX].
 * Blocks. */
int aq_look(const aq_trust *, const char *version, bool (*is_it)(void *user, const aq_found *),
            void *user, bool state_only, uint32_t ms, aq_presence_info *ret_info, aq_found *ret,
            uint32_t *ret_n, aq_err *) AQ_MUST;

/** aq_split_open with a member: where it was last when it answers there, else where mDNS finds it (by presence,
 * or NULL: looked for now). cfg's to, addr and n_addr are not looked at. The address that answered is kept
 * when this process has or gets the lock. GONE, too, when nobody knows where it is. */
int aq_split_open_member(const aq_split_cfg *, const aq_member *, const aq_presence *,
                         const char *version, aq_split **ret, aq_err *) AQ_MUST;

/* ---- this PC while its Pool is on -------------------------------------------------------------- */

/** A seat in the pool: this PC shows itself, listens, pairs, computes layers for others, and watches how the others
 * are. What a window and a node have; without it there is no socket, no mDNS and no thread of the pool. */
typedef struct aq_seat aq_seat;
typedef struct aq_seat_cfg {
    aq_rt *rt; /* borrowed, as is all of this; trust: held by this process */
    aq_trust *trust;
    const char *app, *version; /* "aquifer 0.1.0", "0.1.0" */
    const char *backend;       /* as of a node, as is what follows */
    const char *const *dir;
    uint32_t n_dir;
    const char *const *bind;
    uint32_t n_bind;
    uint16_t port;
    bool join;
    bool pair; /* other PCs may ask to be paired */
    bool hide; /* mDNS is left alone */
    /* Another process of this user has the pool and takes calls: it is asked and steered (trust: not held, then), and this one neither
     * shows itself nor listens. When that process ends, this one takes its place. Needs watch. */
    bool guest;
    /* Folder of the socket by which other programs of this user ask and steer (aq_call); made, 0700. NULL = none. What
     * cannot be made is told in the log. */
    const char *ctl_dir;
    bool
        watch; /* ask the PCs of the network how they are, each AQ_SEAT_WATCH_MS and when one comes */
    void (*changed_cb)(
        void *user); /* something of aq_seat_state changed. Any thread; must not block,
                                     * and calls nothing of the pool. May be NULL */
    void *user;
} aq_seat_cfg;
#define AQ_SEAT_WATCH_MS 5000u
/** It succeeds without a port, too: listen_err says why then (in use, no network), and aq_seat_listen tries again.
 * Blocks a little. Errors: NOMEM, IO. */
int aq_seat_new(const aq_seat_cfg *, aq_seat **ret, aq_err *) AQ_MUST;
void aq_seat_free(aq_seat *); /* ends all that it has open; blocks, some seconds at most */
AQ_CLEANUP_FUNC(aq_seat *, aq_seat_free)
/** Listen again, on this port (0 = any). The layers of other PCs go. Blocks. */
int aq_seat_listen(aq_seat *, uint16_t port, aq_err *) AQ_MUST;
int aq_seat_join(aq_seat *, const char *addr, const uint8_t secret[AQ_SECRET_BYTES],
                 aq_err *) AQ_MUST; /* as aq_node_join */

enum {
    AQ_PAIR_NONE,
    AQ_PAIR_CALLING, /* this PC calls */
    AQ_PAIR_DIGITS,  /* both show them: aq_seat_pair_answer */
    AQ_PAIR_WAITS,   /* this PC has answered */
    AQ_PAIR_DONE,    /* paired */
    AQ_PAIR_BROKEN,  /* why */
};
typedef struct aq_pair_state {
    uint32_t step; /* AQ_PAIR_* */
    bool incoming; /* the other PC called */
    char digits[7];
    char name[AQ_NAME_MAX + 1];
    aq_id id;                     /* DONE */
    aq_reach reach_out, reach_in; /* DONE: as of aq_meet_reach */
    aq_err why;
} aq_pair_state;
/** Call a PC to be paired with it: 1 to AQ_ADDRS_MAX addresses. Returns at once. BUSY: a pairing is under
 * way. */
int aq_seat_pair(aq_seat *, const char *const *addr, uint32_t n, aq_err *) AQ_MUST;
void aq_seat_pair_answer(aq_seat *, bool match); /* They Match, or They Differ */
void aq_seat_pair_end(aq_seat *);                /* forget it; ends it when it is not over */

/** As aq_trust_set_perms, aq_trust_remove and aq_trust_leave; links that are open go where they must. Block. */
int aq_seat_set_perms(aq_seat *, const aq_id *, uint32_t perms, aq_err *) AQ_MUST;
int aq_seat_remove(aq_seat *, const aq_id *, aq_err *) AQ_MUST;
int aq_seat_leave(aq_seat *, aq_err *) AQ_MUST;
int aq_seat_set_name(aq_seat *, const char *name, aq_err *) AQ_MUST; /* as aq_trust_set_name */
/** As aq_known_add and aq_known_drop. */
int aq_seat_add(aq_seat *, const char *addr, char ret[AQ_ADDR_MAX + 1], aq_err *) AQ_MUST;
int aq_seat_forget(aq_seat *, const char *addr, aq_err *) AQ_MUST;
void aq_seat_ask(aq_seat *); /* how the PCs are: now. Any thread; returns at once */
/** aq_split_open_member by this pool's presence; rt, trust and app are the pool's. */
int aq_seat_split(aq_seat *, const aq_id *, const aq_split_cfg *, aq_split **ret, aq_err *) AQ_MUST;

typedef struct aq_seat_state {
    uint16_t port; /* on which it listens, 0: listen_err */
    bool in_pool;
    aq_err listen_err; /* code 0 = none */
    bool open;         /* other PCs may ask to be paired */
    bool guest;        /* as of aq_seat_cfg, now */
    aq_holder host;    /* of a guest: who has the pool. pid 0 = it has not answered yet */
    aq_presence_info mdns;
    aq_pair_state pair;
    char
        reach_name[AQ_NAME_MAX +
                   1]; /* who was paired last, "" = nobody yet; and whether they reach each other */
    aq_reach reach_out, reach_in;
    aq_node_state node; /* what it computes for others */
    uint32_t n_pc;
    aq_pc pc[AQ_PCS_MAX];
} aq_seat_state;
/** All of it, now. Large: not for a stack. Does not wait for the network; reads the file of addresses. */
void aq_seat_get(aq_seat *, aq_seat_state *ret);

/* ---- calls to the process that has this PC's pool ----------------------------------------------- */

/** One question to it, over its socket: a JSON object each way per line (docs/PROTOCOL.md, 14). One thread. */
typedef struct aq_call aq_call;
#define AQ_CALL_LINE_MAX (1u << 20)
/** 1, or 0 when no process has the pool. Errors: BUSY (one has it and takes no calls; it is named), AUTH (it is another
 * user's), IO. */
int aq_call_open(const aq_trust *, aq_call **ret, aq_err *) AQ_MUST;
void aq_call_free(aq_call *);
AQ_CLEANUP_FUNC(aq_call *, aq_call_free)
const aq_holder *aq_call_holder(const aq_call *);
/** Send one line, without its end. GONE: it hung up. */
int aq_call_say(aq_call *, const char *line, size_t n, aq_err *) AQ_MUST;
/** The next line: 1, and ret until the next call of this function; 0 when other_fd (-1 = none) can be read first. An error that it
 * answers with is this function's, with its code. GONE: it hung up. */
int aq_call_hear(aq_call *, int other_fd, const aq_json **ret, aq_err *) AQ_MUST;
/** The model's fingerprint, kept beside the trust until its files change. Errors: IO, NOMEM. */
int aq_trust_fingerprint(const aq_trust *, const aq_model *, const aq_wsrc *, uint8_t ret[32],
                         aq_err *) AQ_MUST;

/** What a PC does when its program starts: a versioned file of the state folder. */
typedef struct aq_mode {
    bool on;       /* the Pool */
    uint16_t port; /* 0 = AQ_POOL_PORT */
    bool split;    /* a split with this PC and model was running */
    uint32_t cut;  /* layers here; 0 = by the memory of both */
    aq_id pc;
    char rows[8];     /* "" = f32 */
    char model[1024]; /* path */
} aq_mode;
/** dir: the state folder, as of aq_trust_open. Without a file all is off. FORMAT: damaged, or of a later version. */
int aq_mode_load(const char *dir, aq_mode *ret, aq_err *) AQ_MUST;
/** Makes the folder (0700) when it is missing. INVAL: a path that is not UTF-8 or too long. */
int aq_mode_save(const char *dir, const aq_mode *, aq_err *) AQ_MUST;

/** What a split at `cut` takes of this PC and of the other one, bytes of weights and state (weights of embedding and head
 * are here). cfg: as of the split; 0 < cut < n_layer. */
void aq_split_need(const aq_model_info *, const aq_engine_cfg *, uint32_t cut,
                   uint64_t *ret_here_bytes, uint64_t *ret_there_bytes);
/** The cut that a split takes by itself when this PC and the other one, called pc, have so much memory. Errors:
 * UNSUPPORTED (it can be parted nowhere), NOMEM with both numbers. */
int aq_split_choose(const aq_model_info *, const aq_engine_cfg *, uint64_t here_bytes,
                    uint64_t there_bytes, const char *pc, uint32_t *ret_cut, aq_err *) AQ_MUST;

/** Two identities in a pool of their own, in dir/here and dir/there: for checking a split over
 * loopback with one PC. dir must exist; nothing of it leaves this PC. */
int aq_check_twins(const char *dir, aq_trust **ret_here, aq_trust **ret_there, aq_err *) AQ_MUST;

#ifdef __cplusplus
}
#endif
#endif
