/* SPDX-License-Identifier: Apache-2.0 */
/* Presence of one PC as a program: commands as lines on stdin, answers as JSON lines on stdout.
 *
 * usage: presence-peer ID    (ID: one digit, the PC's id is 64 of it)
 *   start NAME PORT PORT-USED | set NAME PORT PORT-USED | stop | base | count | listen PORT |
 *   dial ID LIMIT-MS | end
 * "start" is followed by a line whenever something changed; "count" tells the sockets and threads of
 * this process, "base" how many threads it has while off; "dial" calls a found PC on all its
 * addresses. */
#include "dial-priv.h"

#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
#define OWN_THREADS 2 /* ThreadSanitizer has one */
#else
#define OWN_THREADS 1
#endif

static const char *const state_names[AQ_PRESENCE_N] = {
    "OFF", "STARTING", "RUNNING", "NO_DAEMON", "REFUSED", "TWIN", "PORT_USED", "FAILED", "NO_BUILD",
};
static const char *const reach_names[AQ_REACH_N] = {
    "UNTRIED", "FOREIGN", "NO_ROUTE", "SILENT", "BLOCKED", "REFUSED", "ANSWERS",
};

static int changed[2]; /* a pipe: presence's thread to this one */

static void changed_cb(void *user)
{
    (void)user;
    if (write(changed[1], "c", 1) < 0) {
        /* full: a line is due anyway */
    }
}

static void quote(const char *s)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};

    if (aq_json_quote(&b, s, strlen(s)) >= 0)
        fwrite(b.p, 1, b.n, stdout);
}

static void tell(const aq_presence *p)
{
    static aq_found f[AQ_FOUND_MAX];
    aq_presence_info info;
    uint32_t n = aq_presence_found(p, f, AQ_FOUND_MAX);

    aq_presence_get(p, &info);
    printf("{\"state\":\"%s\",\"port\":%u,\"detail\":", state_names[info.state], info.port);
    quote(info.detail);
    printf(",\"n_found\":%u,\"found\":[", info.n_found);
    for (uint32_t i = 0; i < n; i++) {
        printf("%s{\"id\":\"%x\",\"name\":", i ? "," : "", f[i].id.b[0] & 15u);
        quote(f[i].name);
        printf(",\"version\":");
        quote(f[i].version);
        printf(",\"addr\":[");
        for (uint32_t k = 0; k < f[i].n_addr; k++) {
            printf(k ? "," : "");
            quote(f[i].addr[k]);
        }
        printf("]}");
    }
    printf("]}\n");
}

static void count(void)
{
    unsigned sockets = 0, threads = 0;
    struct dirent *e;
    DIR *d = opendir("/proc/self/fd");

    while (d && (e = readdir(d))) {
        struct stat st;
        sockets += e->d_name[0] != '.' && fstatat(dirfd(d), e->d_name, &st, 0) == 0 &&
                   S_ISSOCK(st.st_mode);
    }
    if (d)
        closedir(d);
    d = opendir("/proc/self/task");
    while (d && (e = readdir(d)))
        threads += e->d_name[0] != '.';
    if (d)
        closedir(d);
    printf("{\"sockets\":%u,\"threads\":%u}\n", sockets, threads);
}

static void dial(const aq_presence *p, unsigned id, unsigned limit_ms)
{
    static aq_found f[AQ_FOUND_MAX];
    struct sockaddr_storage addr[AQ_ADDRS_MAX];
    aq_reach reach[AQ_ADDRS_MAX];
    char text[AQ_ADDR_MAX + 1] = "";
    uint32_t n = aq_presence_found(p, f, AQ_FOUND_MAX), i = 0, won = 0;
    aq_err err = {0};
    AQ_AUTOFD int fd = -1;

    while (i < n && (f[i].id.b[0] & 15u) != id)
        i++;
    aq_dial_to to = {.addr = addr,
                     .n = i < n ? aq_dial_list(NULL, &f[i], addr) : 0,
                     .deadline_us = aq_now_us() + 1000ll * limit_ms,
                     .wake_fd = -1};
    int rc = aq_dial_any(&to, &fd, &won, reach, &err);
    if (rc >= 0)
        aq_addr_text((const struct sockaddr *)&addr[won], true, text);
    printf("{\"dial\":\"%s\",\"addr\":\"%s\",\"reach\":[", aq_status_name(rc), text);
    for (uint32_t k = 0; k < to.n && rc != -AQ_E_INVAL; k++)
        printf("%s\"%s\"", k ? "," : "", reach_names[reach[k]]);
    printf("],\"text\":");
    quote(err.text);
    printf("}\n");
}

static void *nothing(void *user)
{
    return user;
}

int main(int argc, char **argv)
{
    pthread_t t;
    AQ_AUTO(aq_presence_free) aq_presence *p = NULL;
    aq_presence_opts o = {.version = "0.1.0"};
    AQ_AUTOFD int listener = -1;
    char line[200];
    size_t n_line = 0;

    if (argc != 2 || pipe(changed) < 0)
        return 2;
    /* A sanitizer starts a thread of its own with the first one of the program: let that be now. */
    if (pthread_create(&t, NULL, nothing, NULL) == 0)
        pthread_join(t, NULL);
    memset(o.id.b, (int)(0x11 * strtoul(argv[1], NULL, 16)), sizeof o.id.b);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (;;) {
        struct pollfd pf[2] = {{.fd = 0, .events = POLLIN}, {.fd = changed[0], .events = POLLIN}};
        char buf[64], name[80] = "";
        unsigned a = 0, b = 0;
        aq_err err = {0};
        int rc = 0;

        if (poll(pf, 2, -1) < 0)
            return 2;
        if (pf[1].revents) {
            if (read(changed[0], buf, sizeof buf) <= 0)
                return 2;
            tell(p);
        }
        if (!pf[0].revents)
            continue;
        if (n_line + 1 == sizeof line || read(0, line + n_line, 1) != 1)
            return 0;
        if (line[n_line] != '\n') {
            n_line++;
            continue;
        }
        line[n_line] = 0;
        n_line = 0;
        if (sscanf(line, "start %79s %u %u", name, &a, &b) == 3 ||
            sscanf(line, "set %79s %u %u", name, &a, &b) == 3) {
            o.name = name;
            o.port = (uint16_t)a;
            o.port_used = (uint16_t)b;
            rc = p ? aq_presence_set(p, &o, &err)
                   : aq_presence_start(&o, changed_cb, NULL, &p, &err);
        } else if (strcmp(line, "stop") == 0) {
            aq_presence_free(AQ_STEAL(p));
            tell(p);
        } else if (strcmp(line, "base") == 0) {
            printf("{\"base\":%d}\n", OWN_THREADS);
        } else if (strcmp(line, "count") == 0) {
            count();
        } else if (sscanf(line, "listen %u", &a) == 1) {
            struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)a)};
            listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
            rc = listener < 0 || bind(listener, (struct sockaddr *)&any, sizeof any) < 0 ||
                         listen(listener, 64) < 0
                     ? aq_fail(&err, AQ_E_IO, "listen failed")
                     : 0;
            printf("{\"listens\":%u}\n", rc < 0 ? 0 : a);
        } else if (sscanf(line, "dial %x %u", &a, &b) == 2) {
            dial(p, a, b);
        } else {
            return strcmp(line, "end") == 0 ? 0 : 2;
        }
        if (rc < 0)
            printf("{\"error\":\"%s\"}\n", err.text);
    }
}
