/* SPDX-License-Identifier: Apache-2.0 */
/* Who may ask. Three doors, each for another kind of caller:
 *
 *   key      programs that are not wanted: constant time, several, each may be taken back
 *   Host     a web page whose name was pointed at this PC (DNS rebinding): only names that are this PC's are answered
 *   Origin   a web page of another site: only pages of this PC, or of a listed origin
 *
 * Pure functions of their arguments. Any thread; the caller holds what guards aq_guard. */
#include <stdio.h>
#include <unistd.h>

#include "api-priv.h"

static int digest(const char *text, size_t n, uint8_t ret[32])
{
    AQ_AUTO(aq_sha256_free) aq_sha256 *h = aq_sha256_new();

    if (!h || aq_sha256_add(h, text, n) < 0 || aq_sha256_end(h, ret) < 0)
        return -AQ_E_NOMEM;
    return 0;
}

int aq_guard_keys(aq_guard *g, const char *const *key, uint32_t n, aq_err *err)
{
    uint8_t hash[AQ_API_KEYS_MAX][32];

    if (n > AQ_API_KEYS_MAX)
        return aq_fail(err, AQ_E_LIMIT, "%u keys, at most %u are allowed", n, AQ_API_KEYS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        size_t len = key[i] ? strlen(key[i]) : 0;
        if (!len || len > AQ_API_KEY_MAX)
            return aq_fail(err, AQ_E_INVAL, "key %u has %zu bytes, 1 to %u are allowed", i + 1, len,
                           AQ_API_KEY_MAX);
        for (size_t k = 0; k < len; k++)
            if (key[i][k] <= ' ' || key[i][k] > '~')
                return aq_fail(err, AQ_E_INVAL,
                               "key %u holds a character that no header can carry: use letters, "
                               "digits and marks",
                               i + 1);
        if (digest(key[i], len, hash[i]) < 0)
            return aq_fail(err, AQ_E_NOMEM, "no memory for a key");
    }
    memcpy(g->key, hash, sizeof hash);
    g->n_key = n;
    return 0;
}

static int copy_names(char **to, uint32_t *ret_n, const char *const *from, uint32_t n, aq_err *err)
{
    for (uint32_t i = 0; i < n; i++)
        if (!(to[(*ret_n)++] = strdup(from[i])))
            return aq_fail(err, AQ_E_NOMEM, "no memory for a name");
    return 0;
}

int aq_guard_names(aq_guard *g, const aq_api_cfg *cfg, aq_err *err)
{
    char name[256] = "", local[300];
    const char *own[2] = {name, local};

    if (cfg->n_host > AQ_API_NAMES_MAX - 2 || cfg->n_origin > AQ_API_NAMES_MAX)
        return aq_fail(err, AQ_E_LIMIT, "too many host names or origins, at most %u are allowed",
                       AQ_API_NAMES_MAX - 2);
    int rc = copy_names(g->host, &g->n_host, cfg->host, cfg->n_host, err);
    if (gethostname(name, sizeof name - 1) < 0)
        name[0] = 0;
    snprintf(local, sizeof local, "%s.local", name);
    if (rc >= 0 && name[0])
        rc = copy_names(g->host, &g->n_host, own, 2, err);
    return rc < 0 ? rc : copy_names(g->origin, &g->n_origin, cfg->origin, cfg->n_origin, err);
}

void aq_guard_clear(aq_guard *g)
{
    for (uint32_t i = 0; i < g->n_host; i++)
        free(g->host[i]);
    for (uint32_t i = 0; i < g->n_origin; i++)
        free(g->origin[i]);
    aq_mem_wipe(g, sizeof *g);
}

static bool key_is(const aq_guard *g, const char *key)
{
    uint8_t hash[32];
    uint32_t hit = 0;

    if (digest(key, strlen(key), hash) < 0)
        return false;
    for (uint32_t i = 0; i < g->n_key; i++) /* all of them: the time tells nothing */
        hit |= aq_mem_equal_ct(hash, g->key[i], sizeof hash);
    aq_mem_wipe(hash, sizeof hash);
    return hit;
}

bool aq_guard_key(const aq_guard *g, const char *authorization, const char *x_api_key)
{
    if (!g->n_key)
        return true;
    if (authorization && !g_ascii_strncasecmp(authorization, "Bearer ", 7)) {
        for (authorization += 7; *authorization == ' ';)
            authorization++;
        if (key_is(g, authorization))
            return true;
    }
    return x_api_key && key_is(g, x_api_key);
}

/* The host of "host", "host:port" or "[v6]:port", without brackets. False: it is none of these. */
static bool split_host(const char *text, char *ret, size_t cap)
{
    const char *end, *port;

    if (*text == '[') {
        end = strchr(++text, ']');
        if (!end)
            return false;
        port = end + 1;
    } else {
        end = port = text + strcspn(text, ":");
    }
    size_t n = (size_t)(end - text);
    if (!n || n >= cap)
        return false;
    if (*port && (*port != ':' || strspn(port + 1, "0123456789") != strlen(port + 1)))
        return false;
    for (size_t i = 0; i < n; i++)
        ret[i] = g_ascii_tolower(text[i]);
    if (n > 1 && ret[n - 1] == '.') /* a name with its root */
        n--;
    ret[n] = 0;
    return true;
}

static bool is_loopback(const char *host)
{
    if (!strcmp(host, "localhost"))
        return true;
    GInetAddress *a = g_inet_address_new_from_string(host);
    if (!a)
        return false;
    bool is = g_inet_address_get_is_loopback(a);
    g_object_unref(a);
    return is;
}

bool aq_guard_host(const aq_guard *g, const char *host, const char *local)
{
    char name[256];

    if (!host || !split_host(host, name, sizeof name))
        return false;
    if (is_loopback(name) || (local && !strcmp(name, local)))
        return true;
    for (uint32_t i = 0; i < g->n_host; i++)
        if (!g_ascii_strcasecmp(name, g->host[i]))
            return true;
    return false;
}

bool aq_guard_origin(const aq_guard *g, const char *origin)
{
    char name[256];
    const char *rest = NULL;

    for (uint32_t i = 0; i < g->n_origin; i++)
        if (!strcmp(origin, g->origin[i]))
            return true;
    if (!strncmp(origin, "http://", 7))
        rest = origin + 7;
    else if (!strncmp(origin, "https://", 8))
        rest = origin + 8;
    /* exactly scheme, host, port: no path, no user */
    return rest && !strpbrk(rest, "/@?#\\ ") && split_host(rest, name, sizeof name) &&
           is_loopback(name);
}
